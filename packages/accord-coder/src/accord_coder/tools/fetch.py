"""The tool `fetch`: downloads web pages, if the user has enabled that, and converts them to text.

A page comes from an IP address that was resolved and checked before. The modules for the network
are imported on first use.
"""

from __future__ import annotations

import asyncio
import html
import http.client
import ipaddress
import re
import socket
import ssl
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Annotated
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from msgspec import Meta, Struct

from accord import __version__
from accord_coder.permissions.decision import require_permission
from accord_coder.tool_results import MAX_CHARACTERS, Access, Outcome, ToolFailed, fenced, one_line
from accord_coder.tools import Tool

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.decision import ToolContext

_CONNECT_S = 10.0
_PIECE_BYTES = 64 * 1024


class Page(Struct, frozen=True):
    """The response of a server; the body can be cut at the limit."""

    status: int
    mime_type: str
    charset: str | None
    location: str | None
    body: bytes


def private_among(addresses: Sequence[str]) -> str | None:
    """Return the first address that is not on the public internet."""
    for address in addresses:
        found = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(found, ipaddress.IPv6Address):
            found = found.ipv4_mapped or found.sixtofour or found
        if not found.is_global or found.is_multicast:
            return address
    return None


class Download:
    """A GET request to one address. `run` blocks; `stop` ends it from another thread."""

    def __init__(self, url: SplitResult, address: str, max_bytes: int, user_agent: str) -> None:
        self._url = url
        self._address = address
        self._max_bytes = max_bytes
        self._user_agent = user_agent
        self._socket: socket.socket | None = None
        self._stopped = False

    def run(self) -> Page:
        """Return the response; raise `OSError` or `http.client.HTTPException`."""
        host = self._url.hostname or ""
        secure = self._url.scheme == "https"
        port = self._url.port or (443 if secure else 80)
        plain = socket.create_connection((self._address, port), timeout=_CONNECT_S)
        connection = http.client.HTTPConnection(host, port)
        try:
            self._socket = plain
            if secure:
                context = ssl.create_default_context()
                self._socket = context.wrap_socket(plain, server_hostname=host)
            if self._stopped:
                raise ConnectionAbortedError
            connection.sock = self._socket  # not a new lookup of the name
            return self._get(connection)
        finally:
            connection.close()
            plain.close()

    def stop(self) -> None:
        """Make `run` fail."""
        self._stopped = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _get(self, connection: http.client.HTTPConnection) -> Page:
        target = self._url.path or "/"
        if self._url.query:
            target += f"?{self._url.query}"
        headers = {
            "Accept": "text/html, text/*, application/json, */*;q=0.5",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "User-Agent": self._user_agent,
        }
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        body = bytearray()
        while len(body) <= self._max_bytes and (piece := answer.read(_PIECE_BYTES)):
            body += piece
        return Page(
            status=answer.status,
            mime_type=answer.headers.get_content_type().lower(),
            charset=answer.headers.get_content_charset(),
            location=answer.headers.get("Location"),
            body=bytes(body),
        )


# HTML to plain text for models: headings, lists, links and code.
#
# Pages can be hostile, so they are read in one pass: an unclosed element lasts to the end of the
# page. The parser of the standard library, which markdownify uses by default, takes minutes for
# 100 KB of `<a <a <a …`; markdownify also fails on deeply nested elements.

_SILENT = frozenset({"head", "noscript", "script", "style", "svg", "template"})
_BLOCKS = frozenset(
    """
    address article aside blockquote dd details div dl dt fieldset figcaption figure footer form
    h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary table td th tr ul
    """.split()  # noqa: SIM905  # a list of words
)


_RAW = frozenset({"script", "style"})  # their content is not HTML
_ASCII_LOWER = str.maketrans(dict(zip(map(ord, ascii_uppercase), ascii_lowercase, strict=True)))
_NAME = re.compile(r"[a-z][^\s/>]*", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"[^\s/>=][^\s/>=]*")
_BLANK = re.compile(r"\s*")
_SPACE = re.compile(r"[\s/]*")
_UNQUOTED = re.compile(r"[^\s>]*")


def text_of_html(page: str) -> str:
    """Return the text of a page; text that is not HTML is returned almost unchanged."""
    reader = _Reader()
    _read(page, reader)
    return reader.text()


def _read(page: str, reader: _Reader) -> None:
    """Pass the tags and texts of a page to a reader."""
    lower = page.translate(_ASCII_LOWER)
    at, end, text_begins = 0, len(page), 0
    while (at := page.find("<", at)) >= 0:
        closes = page.startswith("/", at + 1)
        name = _NAME.match(page, at + 1 + closes)
        if name is None and not (closes or page.startswith(("!", "?"), at + 1)):
            at += 1  # an ordinary character
            continue
        reader.handle_data(_unescaped(page[text_begins:at]))
        if name is None:
            comment = page.startswith("!--", at + 1)
            found = page.find("-->" if comment else ">", at + 2)
            at = end if found < 0 else found + (3 if comment else 1)
        else:
            tag = name[0].translate(_ASCII_LOWER)
            attributes, at = _attributes(page, name.end())
            if closes:
                reader.handle_endtag(tag)
            else:
                reader.handle_starttag(tag, attributes)
                if tag in _RAW:
                    found = lower.find(f"</{tag}", at)
                    at = end if found < 0 else found
        text_begins = at
    reader.handle_data(_unescaped(page[text_begins:]))


def _attributes(page: str, at: int) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag, and its end."""
    found: dict[str, str] = {}
    while True:
        at = _matched(_SPACE, page, at)
        if at >= len(page) or page[at] == ">":
            return found, min(at + 1, len(page))
        begins = at
        at = _matched(_ATTRIBUTE, page, at) if page[at] != "=" else at + 1
        name = page[begins:at].translate(_ASCII_LOWER)
        value_at = _matched(_BLANK, page, at)
        if not page.startswith("=", value_at):
            continue
        at = _matched(_BLANK, page, value_at + 1)
        quote = page[at : at + 1]
        if quote and quote in "\"'":
            closed = page.find(quote, at + 1)
            closed = len(page) if closed < 0 else closed
            value, at = page[at + 1 : closed], closed + 1
        else:
            begins, at = at, _matched(_UNQUOTED, page, at)
            value = page[begins:at]
        found.setdefault(name, _unescaped(value))


def _matched(expression: re.Pattern[str], page: str, at: int) -> int:
    """Return the end of the match of an expression."""
    found = expression.match(page, at)
    return at if found is None else found.end()


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a number with thousands of digits
        return text


class _Reader:
    def __init__(self) -> None:
        self._parts: list[str] = []
        self._silent: list[str] = []  # open elements without visible text
        self._silent_counts: Counter[str] = Counter()
        self._links: list[str | None] = []
        self._pre = 0
        self._title: list[str] | None = None
        self._titles: list[str] = []

    def handle_starttag(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "title" and not self._titles:
            self._title = []
        if tag in _SILENT:
            self._silent.append(tag)
            self._silent_counts[tag] += 1
        if self._silent:
            return
        if tag == "br":
            self._parts.append("\n")
        elif tag in _BLOCKS:
            self._parts.append("\n")
            self._begin_block(tag)
        elif tag == "a":
            self._links.append(attributes.get("href"))
        elif tag == "img" and (alt := attributes.get("alt")):
            self._parts.append(f"[{alt}]")

    def _begin_block(self, tag: str) -> None:
        if tag[0] == "h" and tag[1:].isdigit():
            self._parts.append("\n" + "#" * int(tag[1:]) + " ")
        elif tag == "li":
            self._parts.append("- ")
        elif tag == "p":
            self._parts.append("\n")
        elif tag == "pre":
            self._pre += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "title" and self._title is not None:
            self._titles.append("".join(self._title).strip())
            self._title = None
        if self._silent:
            if self._silent_counts[tag]:
                popped = ""
                while popped != tag:
                    popped = self._silent.pop()
                    self._silent_counts[popped] -= 1
            return
        if tag in _BLOCKS:
            self._parts.append("\n")
            if tag == "pre" and self._pre:
                self._pre -= 1
        elif tag == "a" and self._links:
            href = self._links.pop()
            if href and href.startswith(("http://", "https://", "/")):
                self._parts.append(f" ({href})")

    def handle_data(self, data: str) -> None:
        if self._title is not None:
            self._title.append(data)
        if not self._silent:
            self._parts.append(data if self._pre else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        """Return the text without redundant white space."""
        text = "".join(self._parts)
        lines = [line.rstrip() for line in text.split("\n")]
        lines = [line[1:] if line.startswith(" ") and line[1:2] != " " else line for line in lines]
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        title = self._titles[0] if self._titles else ""
        return f"{title}\n\n{body}".strip("\n") + "\n"


_MAX_SECONDS = 30.0
_MAX_BYTES = 5 * 1024 * 1024
_MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_TEXTS = ("json", "xml", "javascript", "yaml", "toml", "x-sh")


class FetchArguments(Struct, frozen=True):
    """The arguments of `fetch`."""

    url: Annotated[str, Meta(description="The URL, http or https")]


class Fetch(Tool[FetchArguments]):
    """Downloads a web page."""

    name = "fetch"
    kind = "fetch"
    description = "Download a web page or text; HTML is converted to plain text with its links."
    arguments_type = FetchArguments
    cancellable = True

    def title(self, args: FetchArguments, context: ToolContext) -> str:
        """Return a title with the URL."""
        return f"Fetch {one_line(args.url)}"

    def access(self, args: FetchArguments, context: ToolContext) -> Access:
        """Return a fetch of the URL."""
        return Access("fetch", subject=args.url)

    async def preview(
        self, args: FetchArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Refuse an invalid URL before the user is asked."""
        _check_url(args.url)

    async def run(
        self, args: FetchArguments, call: ToolCallHandle, context: ToolContext
    ) -> Outcome:
        """Download it and follow redirects; another host requires permission again."""
        url = _check_url(args.url)
        for _ in range(_MAX_REDIRECTS + 1):
            page = await _get(url, context)
            if page.status not in _REDIRECTS or page.location is None:
                return await _outcome(url, page, call)
            target = _check_url(urljoin(urlunsplit(url), page.location))
            if url.scheme == "https" and target.scheme == "http":
                raise ToolFailed(f"{url.hostname} redirects to a URL that is not encrypted.")
            if (target.hostname, target.port) != (url.hostname, url.port):
                await call.update(
                    title=f"Fetch {one_line(urlunsplit(target))}"
                )  # permission is requested now
                await require_permission(Access("fetch", subject=urlunsplit(target)), call, context)
            url = target
        raise ToolFailed(f"{args.url} has too many redirects.")


def _check_url(address: str) -> SplitResult:
    """Return the parts of a URL; raise `ToolFailed` if it is not valid."""
    if any(ord(character) <= 32 or ord(character) > 126 for character in address):
        raise ToolFailed("The URL contains invalid characters: encode them.")
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError as exc:
        raise ToolFailed(f"The URL is not valid: {exc}") from exc
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise ToolFailed("Only URLs that begin with http:// or https:// can be fetched.")
    if url.username is not None or url.password is not None:
        raise ToolFailed("URLs with a user name or a password are not fetched.")
    return url._replace(fragment="")


async def _get(url: SplitResult, context: ToolContext) -> Page:
    host = url.hostname or ""
    try:
        async with asyncio.timeout(_MAX_SECONDS):
            address = await _address_of(url, context)
            download = Download(url, address, _MAX_BYTES, f"accord/{__version__}")
            try:
                return await asyncio.to_thread(download.run)
            finally:
                download.stop()
    except TimeoutError:
        raise ToolFailed(f"{host} did not respond within {_MAX_SECONDS:.0f} s.") from None
    except (OSError, HTTPException) as exc:
        reason = getattr(exc, "strerror", None) or type(exc).__name__
        raise ToolFailed(f"{host} cannot be reached: {reason}") from exc


async def _address_of(url: SplitResult, context: ToolContext) -> str:
    """Resolve the host; raise `ToolFailed` for addresses outside the public internet."""
    host = url.hostname or ""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, url.port or 0, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as exc:
        raise ToolFailed(f"The host {host} does not exist.") from exc
    addresses = [str(sockaddr[0]) for *_, sockaddr in found]
    if not context.settings.fetch_private and (private := private_among(addresses)) is not None:
        raise ToolFailed(
            f"{host} is {private}, which is not on the public internet, so it is not fetched."
        )
    return addresses[0]


async def _outcome(url: SplitResult, page: Page, call: ToolCallHandle) -> Outcome:
    """Show a page and return it as text."""
    is_cut = len(page.body) > _MAX_BYTES
    raw = {"status": page.status, "url": urlunsplit(url), "type": page.mime_type}
    kind = page.mime_type
    is_text = kind.startswith("text/") or any(word in kind for word in _TEXTS)
    if not is_text and b"\0" in page.body[:8192]:
        raise ToolFailed(f"{urlunsplit(url)} is not text but {kind}.")
    text = _decode(page)
    if kind in ("text/html", "application/xhtml+xml"):
        text = await asyncio.to_thread(text_of_html, text)
    if len(text) > MAX_CHARACTERS:
        text, is_cut = text[:MAX_CHARACTERS], True
    if is_cut:
        text += "\n[truncated]"
    if page.status >= 400:
        text = f"{text}\n[status {page.status}]"
    await call.add_content(fenced(text))
    return Outcome((text,), raw, failed=page.status >= 400)


def _decode(page: Page) -> str:
    try:
        return page.body.decode(page.charset or "utf-8", "replace")
    except LookupError:
        return page.body.decode("utf-8", "replace")
