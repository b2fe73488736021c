"""Names of hosts and origins that a server may be given."""

from __future__ import annotations

import pytest

from accord.remote.access import Access

TOKEN = "a-token-for-this-test"


BROWSERS_SEND = [
    "null",
    "https://a.example",
    "https://a.example/",
    "HTTPS://A.example",
    "https://a.example:8443",
    "https://a.example:80",
    "http://[::1]:8080",
    "vscode-webview://1ab",
]


def test_origin_that_a_browser_sends_is_accepted() -> None:
    for origin in BROWSERS_SEND:
        Access(token=TOKEN, origins=[origin])


NO_BROWSER_SENDS = [
    "a.example",
    "https:///",
    "file:///",
    "https://a.example:443",
    "http://a.example:80/",
    "http://[::1]:80",
    "https://a.example,https://b.example",
    "https://*.example",
]


def test_origin_that_no_browser_sends_is_refused() -> None:
    for origin in NO_BROWSER_SENDS:
        with pytest.raises(ValueError, match="Expected an origin as browsers send it"):
            Access(token=TOKEN, origins=[origin])


def test_host_that_no_request_names_is_refused() -> None:
    for host in ("", " ", "https://a.example", "*.example", "a.example,b.example"):
        with pytest.raises(ValueError, match="Expected the name of a host"):
            Access(token=TOKEN, hosts=[host])
