"""Names of hosts and origins that a server may be given."""

from __future__ import annotations

import pytest

from accord.remote.access import Access

TOKEN = "a-token-for-this-test"


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "https://a.example",
        "https://a.example/",
        "HTTPS://A.example",
        "https://a.example:8443",
        "https://a.example:80",
        "http://[::1]:8080",
        "vscode-webview://1ab",
    ],
)
def test_origin_that_a_browser_sends_is_accepted(origin: str) -> None:
    Access(token=TOKEN, origins=[origin])


@pytest.mark.parametrize(
    "origin",
    [
        "a.example",
        "https:///",
        "file:///",
        "https://a.example:443",
        "http://a.example:80/",
        "http://[::1]:80",
        "https://a.example,https://b.example",
        "https://*.example",
    ],
)
def test_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="Expected an origin as browsers send it"):
        Access(token=TOKEN, origins=[origin])


@pytest.mark.parametrize("host", ["", " ", "https://a.example", "*.example", "a.example,b.example"])
def test_host_that_no_request_names_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="Expected the name of a host"):
        Access(token=TOKEN, hosts=[host])
