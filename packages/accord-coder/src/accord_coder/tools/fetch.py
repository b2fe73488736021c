"""The tool `fetch`: downloads web pages, if the user has enabled that."""

from __future__ import annotations

import asyncio
import socket
from http.client import HTTPException
from typing import TYPE_CHECKING, Annotated
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from msgspec import Meta, Struct

from accord import __version__
from accord_coder.permissions.gate import require_permission
from accord_coder.tool_results import MAX_CHARACTERS, Access, Outcome, ToolFailed, fenced, one_line
from accord_coder.tools.base import Tool
from accord_coder.tools.download import Download, private_among
from accord_coder.tools.html_text import text_of_html

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.context import ToolContext
    from accord_coder.tools.download import Page

# The modules for the network are imported on first use.


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
