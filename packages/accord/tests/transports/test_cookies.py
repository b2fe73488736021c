"""The store of cookies."""

from __future__ import annotations

from accord.transports.registry import CookieStore
from requirement import requirement

URL = "https://agent.example/acp"


def stored(*headers: str, url: str = URL) -> CookieStore:
    store = CookieStore(lambda: 1_000_000.0)
    store.take(url, headers)
    return store


SENT_BACK = [
    (["a=1"], "a=1"),
    (["a=1; Path=/; HttpOnly; SameSite=Lax", "b=2; Secure"], "a=1; b=2"),
    (["a=1", "a=2"], "a=2"),
    (["a=x=y==; Path=/"], "a=x=y=="),
    (['a="1 2"'], 'a="1 2"'),
    (["a=1; Max-Age=5"], "a=1"),
    (["a=1", "a=; Max-Age=0"], ""),
    (["a=1", "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], ""),
    (["a=1; Expires=Fri, 01 Jan 2100 00:00:00 GMT"], "a=1"),
    (["a=1; Expires=nonsense"], "a=1"),
    (["a=1; Path=/other"], ""),
    (["a=1; Path=/ac"], ""),
    (["a=1; Path=/acp/"], ""),
    (["a=1; Path=/acp", "a=2; Path=/"], "a=1; a=2"),
    (["nonsense", "=1", "a\x01b=1", "; Path=/", ""], ""),
    (["a=" + "x" * 5000], ""),
]


@requirement("R-HTTP-04")
def test_cookies_are_sent_back() -> None:
    for headers, sent in SENT_BACK:
        assert stored(*headers).header(URL) == sent, (headers, sent)


URLS = [
    ("https://agent.example:443/acp", "a=1"),
    ("wss://AGENT.example/acp", "a=1"),
    ("http://agent.example/acp", ""),
    ("ws://agent.example:443/acp", ""),
    ("https://agent.example:8443/acp", ""),
    ("https://other.example/acp", ""),
    ("https://sub.agent.example/acp", ""),
    ("https://agent.example/other", "a=1"),
]


@requirement("R-HTTP-04")
def test_cookies_are_for_one_origin() -> None:
    for url, sent in URLS:
        store = stored("a=1; Domain=example; Path=/")
        assert store.header(url) == sent, (url, sent)
        store.take("https://attacker.example/acp", ["a=stolen", "b=2"])
        assert store.header(URL) == "a=1", (url, sent)


def test_secure_cookie_needs_an_encrypted_connection() -> None:
    store = stored("a=1; Secure", "b=2", url="http://127.0.0.1:8000/acp")
    assert store.header("http://127.0.0.1:8000/acp") == "b=2"


def test_cookies_expire_and_can_be_cleared() -> None:
    now = 0.0
    store = CookieStore(lambda: now)
    store.take(URL, ["a=1; Max-Age=10", "b=2"])
    now = 11.0
    assert store.header(URL) == "b=2"
    assert repr(store) == "<CookieStore with 1 cookies>"
    store.clear()
    assert store.header(URL) == ""
    store.take("https://other.example/acp", ["c=3"])
    assert store.header("https://other.example/acp") == "c=3"


def test_cookies_are_bounded() -> None:
    store = stored(*(f"c{number}={number}" for number in range(60)))
    assert len(store.header(URL).split("; ")) == 50
