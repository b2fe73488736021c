"""Fetching pages: off by default, public internet only, with permission for each host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accord_coder.settings import Settings
from accord_coder.tools import fetch
from accord_coder.tools.fetch import private_among, text_of_html
from coder.harness import CoderHarness, scripted

PAGE = b"""<!doctype html><html><head><title>Notes &amp; more</title><style>p {}</style></head>
<body><script>alert(1)</script><h1>Head</h1><p>Some   <b>bold</b> text,
a <a href="https://example.org/x">link</a>.</p><ul><li>one<li>two</ul>
<pre>x = 1
  y</pre></body></html>"""


class Site:
    """A local server; `pages` are complete responses by path."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.held = asyncio.Event()  # an unknown path is never answered
        self.port = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def page(self, path: str, body: bytes, kind: str = "text/plain", status: int = 200) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.pages[path] = head.encode() + body

    def leads(self, path: str, target: str) -> None:
        head = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
        self.pages[path] = head.encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1].decode()
        self.asked.append(path)
        if path in self.pages:
            writer.write(self.pages[path])
            await writer.drain()
        else:
            self.held.set()
            await reader.read()
        writer.close()


@asynccontextmanager
async def site() -> AsyncGenerator[Site, None]:
    one = Site()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    async with server:
        yield one


@asynccontextmanager
async def fetching(
    cwd: Path, *, private: bool = True, allow: str = "allow"
) -> AsyncGenerator[tuple[CoderHarness, Site], None]:
    settings = Settings(fetch=True, fetch_private=private)
    async with (
        site() as one,
        scripted(cwd, settings=settings, allow=allow) as harness,
    ):
        yield harness, one


async def test_fetching_is_off_by_default(tmp_path: Path) -> None:
    async with scripted(tmp_path) as harness:
        assert "Unknown tool fetch" in (await harness.use("fetch", url="http://example.org")).text


async def test_page_is_converted_to_text(tmp_path: Path) -> None:
    async with fetching(tmp_path) as (harness, one):
        one.page("/a?b=c", PAGE, "text/html; charset=utf-8")
        result = await harness.use("fetch", url=one.url("/a?b=c#part"))
        assert result.text == (
            "Notes & more\n\n# Head\n\nSome bold text, a link (https://example.org/x).\n\n"
            "- one\n- two\n\nx = 1\n  y\n"
        )
        assert harness.call.kind == "fetch"
        assert harness.call.raw_output["status"] == 200
        assert len(harness.asked) == 1
        assert one.asked == ["/a?b=c"]


async def test_rejected_page_is_not_fetched(tmp_path: Path) -> None:
    async with fetching(tmp_path, allow="reject") as (harness, one):
        assert (await harness.use("fetch", url=one.url("/a"))).failed
        assert one.asked == []


async def test_texts_statuses_and_charsets_are_understood(tmp_path: Path) -> None:
    async with fetching(tmp_path) as (harness, one):
        one.page("/latin", b"caf\xe9", "text/plain; charset=iso-8859-1")
        one.page("/odd", b"caf\xe9", "text/plain; charset=none-such")
        one.page("/json", b"{}", "application/json")
        one.page("/gone", b"no", status=404)
        one.page("/bin", b"\0\1", "application/octet-stream")
        assert (await harness.use("fetch", url=one.url("/latin"))).text == "café"
        assert (await harness.use("fetch", url=one.url("/odd"))).text == "caf�"
        assert (await harness.use("fetch", url=one.url("/json"))).text == "{}"
        gone = await harness.use("fetch", url=one.url("/gone"))
        assert (gone.text, gone.failed) == ("no\n[status 404]", True)
        assert "is not text but" in (await harness.use("fetch", url=one.url("/bin"))).text


async def test_redirect_to_another_host_requires_permission(tmp_path: Path) -> None:
    async with fetching(tmp_path) as (harness, one):
        one.leads("/same", "/page")
        one.leads("/other", one.url("/page", host="localhost"))
        one.page("/page", b"here")
        assert (await harness.use("fetch", url=one.url("/same"))).text == "here"
        assert len(harness.asked) == 1
        assert (await harness.use("fetch", url=one.url("/other"))).text == "here"
        assert len(harness.asked) == 3
        assert harness.asked[-1].title == f"Fetch {one.url('/page', host='localhost')}"


async def test_endless_and_private_redirects_are_rejected(tmp_path: Path) -> None:
    async with fetching(tmp_path) as (harness, one):
        one.leads("/loop", "/loop")
        one.leads("/file", "file:///etc/hostname")
        assert "too many redirects" in (await harness.use("fetch", url=one.url("/loop"))).text
        assert "http://" in (await harness.use("fetch", url=one.url("/file"))).text


async def test_local_addresses_are_rejected(tmp_path: Path) -> None:
    async with fetching(tmp_path, private=False) as (harness, one):
        for host in ["127.0.0.1", "localhost", "[::1]", "2130706433"]:
            one.page("/", b"private")
            result = await harness.use("fetch", url=one.url("/", host=host))
            assert result.failed, host
            assert "not on the public internet" in result.text or "no host" in result.text, host
            assert one.asked == [], host


async def test_invalid_url_is_rejected_before_the_permission_request(tmp_path: Path) -> None:
    async with scripted(tmp_path, settings=Settings(fetch=True)) as harness:
        for url in [
            "ftp://example.org",
            "file:///etc/hostname",
            "x",
            "http://",
            "http://a b",
            "http://u:p@example.org",
            "http://example.org:99999",
            "http://[::1",
            "http://example.org/\r\nX: y",
            "http://example.org/✓",
        ]:
            assert (await harness.use("fetch", url=url)).failed, url
            assert harness.asked == [], url


async def test_long_pages_are_truncated(tmp_path: Path) -> None:
    async with fetching(tmp_path) as (harness, one):
        one.page("/long", b"x" * 6_000_000)
        result = await harness.use("fetch", url=one.url("/long"))
        assert result.text.endswith("x\n[truncated]")
        assert len(result.text) < 101_000


async def test_missing_or_silent_server_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_MAX_SECONDS", 0.2)
    async with fetching(tmp_path) as (harness, one):
        assert "did not respond" in (await harness.use("fetch", url=one.url("/held"))).text
        port, one.port = one.port, 1
        assert "cannot be reached" in (await harness.use("fetch", url=one.url("/"))).text
        one.port = port


async def test_cancel_closes_the_connection(tmp_path: Path) -> None:
    async with fetching(tmp_path) as (harness, one):
        async with harness.using("fetch", url=one.url("/held")) as turn:
            await one.held.wait()
            await turn.cancel()
        assert harness.stop_reason == "cancelled"


def test_addresses_outside_of_the_public_internet_are_recognised() -> None:
    for address in [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "100.64.0.1",
        "::1",
        "fe80::1%eth0",
        "fc00::1",
        "::ffff:127.0.0.1",
        "224.0.0.1",
        "2002:7f00:1::",
    ]:
        assert private_among(["93.184.216.34", address]) == address, address
        assert private_among(["93.184.216.34", "2606:2800:220:1::1"]) is None, address


def test_broken_html_is_converted_to_text() -> None:
    assert text_of_html("a <b>b</a></p></ul> &lt;c <img alt='d'><br>e") == "a b\n\n<c [d]\ne\n"


def test_hostile_html_is_parsed_in_linear_time() -> None:
    for piece in [
        "<!--",
        "<![",
        "<a ",
        "<a b=",
        "<a b='",
        "<",
        "</",
        "<?",
        "&#",
        "<svg>",
        "<svg></p>",
        "<script>",
    ]:
        began = time.process_time()
        text_of_html(piece * 20_000)
        assert time.process_time() - began < 5, (
            piece
        )  # the standard library's parser takes many minutes


def test_unclosed_html_is_read_to_the_end() -> None:
    assert text_of_html("a <!-- b --> c <!-- d <p> e") == "a  c\n"
    assert text_of_html("a <a href='/b>c</a> d") == "a\n"
    assert text_of_html("<a\nHREF = /b >c</A> 1 < 2 <3") == "c (/b) 1 < 2 <3\n"
    assert text_of_html("<script>if (a < b) '<p>'</SCRIPT >d &amp; &#9999999999;") == "d & \ufffd\n"
    assert text_of_html(f"a &#{'9' * 6000};").startswith("a &#999")
