"""Fetching pages: off unless wanted, the public internet alone, each host with permission."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accord_coder.settings import Settings
from accord_coder.tools import fetch
from accord_coder.tools.download import private_among
from accord_coder.tools.html_text import text_of_html
from coder.harness import BOTH, CoderHarness, coder_session
from coder.scripted_model import ScriptedModel

PAGE = b"""<!doctype html><html><head><title>Notes &amp; more</title><style>p {}</style></head>
<body><script>alert(1)</script><h1>Head</h1><p>Some   <b>bold</b> text,
a <a href="https://example.org/x">link</a>.</p><ul><li>one<li>two</ul>
<pre>x = 1
  y</pre></body></html>"""


class Site:
    """A server on this machine; `pages` are whole answers by path."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.held = asyncio.Event()  # a path that is not there is never answered
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
    version: int, cwd: Path, *, private: bool = True, allow: str = "allow"
) -> AsyncGenerator[tuple[CoderHarness, Site], None]:
    settings = Settings(fetch=True, fetch_private=private)
    async with (
        site() as one,
        coder_session(
            version, cwd=cwd, model=ScriptedModel(), settings=settings, allow=allow
        ) as talk,
    ):
        yield talk, one


async def test_there_is_no_fetching_unless_it_was_turned_on(tmp_path: Path) -> None:
    async with coder_session(2, cwd=tmp_path, model=ScriptedModel()) as talk:
        assert "Unknown tool fetch" in (await talk.use("fetch", url="http://example.org")).text


@BOTH
async def test_page_comes_as_text(version: int, tmp_path: Path) -> None:
    async with fetching(version, tmp_path) as (talk, one):
        one.page("/a?b=c", PAGE, "text/html; charset=utf-8")
        result = await talk.use("fetch", url=one.url("/a?b=c#part"))
        assert result.text == (
            "Notes & more\n\n# Head\n\nSome bold text, a link (https://example.org/x).\n\n"
            "- one\n- two\n\nx = 1\n  y\n"
        )
        assert talk.call.kind == "fetch"
        assert talk.call.raw_output["status"] == 200
        assert len(talk.asked) == 1
        assert one.asked == ["/a?b=c"]


@BOTH
async def test_page_that_the_user_rejects_is_not_asked_for(version: int, tmp_path: Path) -> None:
    async with fetching(version, tmp_path, allow="reject") as (talk, one):
        assert (await talk.use("fetch", url=one.url("/a"))).failed
        assert one.asked == []


async def test_texts_statuses_and_charsets_are_understood(tmp_path: Path) -> None:
    async with fetching(2, tmp_path) as (talk, one):
        one.page("/latin", b"caf\xe9", "text/plain; charset=iso-8859-1")
        one.page("/odd", b"caf\xe9", "text/plain; charset=none-such")
        one.page("/json", b"{}", "application/json")
        one.page("/gone", b"no", status=404)
        one.page("/bin", b"\0\1", "application/octet-stream")
        assert (await talk.use("fetch", url=one.url("/latin"))).text == "café"
        assert (await talk.use("fetch", url=one.url("/odd"))).text == "caf�"
        assert (await talk.use("fetch", url=one.url("/json"))).text == "{}"
        gone = await talk.use("fetch", url=one.url("/gone"))
        assert (gone.text, gone.failed) == ("no\n[status 404]", True)
        assert "is not text but" in (await talk.use("fetch", url=one.url("/bin"))).text


async def test_redirect_to_another_host_is_asked_about_anew(tmp_path: Path) -> None:
    async with fetching(2, tmp_path) as (talk, one):
        one.leads("/same", "/page")
        one.leads("/other", one.url("/page", host="localhost"))
        one.page("/page", b"here")
        assert (await talk.use("fetch", url=one.url("/same"))).text == "here"
        assert len(talk.asked) == 1
        assert (await talk.use("fetch", url=one.url("/other"))).text == "here"
        assert len(talk.asked) == 3
        assert talk.asked[-1].title == f"Fetch {one.url('/page', host='localhost')}"


async def test_redirects_without_end_and_to_elsewhere_are_refused(tmp_path: Path) -> None:
    async with fetching(2, tmp_path) as (talk, one):
        one.leads("/loop", "/loop")
        one.leads("/file", "file:///etc/hostname")
        assert "too many redirects" in (await talk.use("fetch", url=one.url("/loop"))).text
        assert "http://" in (await talk.use("fetch", url=one.url("/file"))).text


@BOTH
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433"])
async def test_this_machine_is_not_fetched_from(version: int, host: str, tmp_path: Path) -> None:
    async with fetching(version, tmp_path, private=False) as (talk, one):
        one.page("/", b"private")
        result = await talk.use("fetch", url=one.url("/", host=host))
        assert result.failed
        assert "not on the public internet" in result.text or "no host" in result.text
        assert one.asked == []


@pytest.mark.parametrize(
    "url",
    [
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
    ],
)
async def test_what_is_no_address_is_refused_before_anybody_is_asked(
    url: str, tmp_path: Path
) -> None:
    async with coder_session(
        2, cwd=tmp_path, model=ScriptedModel(), settings=Settings(fetch=True)
    ) as talk:
        assert (await talk.use("fetch", url=url)).failed
        assert talk.asked == []


async def test_long_pages_are_cut(tmp_path: Path) -> None:
    async with fetching(2, tmp_path) as (talk, one):
        one.page("/long", b"x" * 6_000_000)
        result = await talk.use("fetch", url=one.url("/long"))
        assert result.text.endswith("x\n[truncated]")
        assert len(result.text) < 101_000


async def test_server_that_does_not_answer_or_is_not_there_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_MAX_SECONDS", 0.2)
    async with fetching(2, tmp_path) as (talk, one):
        assert "did not respond" in (await talk.use("fetch", url=one.url("/held"))).text
        port, one.port = one.port, 1
        assert "cannot be reached" in (await talk.use("fetch", url=one.url("/"))).text
        one.port = port


@BOTH
async def test_cancel_hangs_up(version: int, tmp_path: Path) -> None:
    async with fetching(version, tmp_path) as (talk, one):
        async with talk.using("fetch", url=one.url("/held")) as turn:
            await one.held.wait()
            await turn.cancel()
        assert talk.stop_reason == "cancelled"


@pytest.mark.parametrize(
    "address",
    [
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
    ],
)
def test_addresses_of_no_public_network_are_known(address: str) -> None:
    assert private_among(["93.184.216.34", address]) == address
    assert private_among(["93.184.216.34", "2606:2800:220:1::1"]) is None


def test_html_that_is_broken_still_gives_text() -> None:
    assert text_of_html("a <b>b</a></p></ul> &lt;c <img alt='d'><br>e") == "a b\n\n<c [d]\ne\n"


@pytest.mark.parametrize(
    "piece",
    [
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
    ],
)
def test_html_of_an_attacker_is_read_in_one_pass(piece: str) -> None:
    began = time.process_time()
    text_of_html(piece * 20_000)
    assert time.process_time() - began < 5  # the standard library takes many minutes


def test_html_that_is_not_closed_lasts_to_the_end() -> None:
    assert text_of_html("a <!-- b --> c <!-- d <p> e") == "a  c\n"
    assert text_of_html("a <a href='/b>c</a> d") == "a\n"
    assert text_of_html("<a\nHREF = /b >c</A> 1 < 2 <3") == "c (/b) 1 < 2 <3\n"
    assert text_of_html("<script>if (a < b) '<p>'</SCRIPT >d &amp; &#9999999999;") == "d & \ufffd\n"
    assert text_of_html(f"a &#{'9' * 6000};").startswith("a &#999")
