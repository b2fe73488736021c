"""Serves the files of a page with headers that let nothing else run, and reads its requests.

What a page sends is bounded; what it cannot have is an `ApiError`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from accord.remote.access import Event, Receive, Scope, Send
from accord.text import lenient_json
from accord_terminal.conversation.questions import ApiError

# Of every response: nothing runs that is not a file of the page, and nothing is embedded.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: tuple[tuple[str, str], ...] = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


def with_headers(send: Send) -> Send:
    """Return `send` with the headers that every response has. It may say how long it is kept."""
    added = {name.lower().encode(): value.encode() for name, value in HEADERS}
    fixed = added.keys() - {b"cache-control"}

    async def sending(event: Event) -> None:
        if event["type"] == "http.response.start":
            kept = [(name, value) for name, value in event["headers"] if name not in fixed]
            given = {name for name, _ in kept}
            headers = (item for item in added.items() if item[0] not in given)
            event = {**event, "headers": [*kept, *headers]}
        await send(event)

    return sending


# The server closes a connection whose request was read only in part, and the browser may have sent
# the next request on it.

_MOST_BYTES = 1024 * 1024  # more is not read: the connection is closed
_MOST_S = 2.0


class UnreadBody:
    """The `receive` and `send` of one request, for its application."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_read = scope["method"] in ("GET", "HEAD")

    async def receive(self) -> Event:
        """Receive an event."""
        event = await self._receive()
        if event["type"] != "http.request" or not event.get("more_body", False):
            self._is_read = True
        return event

    async def send(self, event: Event) -> None:
        """Send an event; before the first one, read the rest of the body."""
        if event["type"] == "http.response.start":
            with suppress(TimeoutError):
                async with asyncio.timeout(_MOST_S):
                    await self._read_rest()
        await self._send(event)

    async def _read_rest(self) -> None:
        left = _MOST_BYTES
        while not self._is_read and left > 0:
            left -= len((await self.receive()).get("body", b""))


SHARED: Path = Path(__file__).parent / "page"
_KEPT = "private, max-age=31536000, immutable"


class PageFiles(StaticFiles):
    """The files of a page in a folder, and those of the conversation.

    Each is at `NAME`, and at `VERSION/NAME`, where a browser keeps it. A page that is loaded again
    asks for nothing else than `index`, which names the version.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, packages=[("accord_terminal.conversation", "page")])
        self._folder = folder
        self._versions: set[str] = set()

    def index(self) -> Response:
        """Return the page itself."""
        version = _version([self._folder, SHARED])
        self._versions.add(version)
        text = (self._folder / "index.html").read_text("utf-8")
        return HTMLResponse(text.replace('"/page/', f'"/page/{version}/'))

    async def get_response(self, path: str, scope: Scope) -> Response:
        first, *rest = Path(path).parts or ("",)
        if first not in self._versions:
            return await super().get_response(path, scope)
        response = await super().get_response("/".join(rest), scope)
        response.headers["Cache-Control"] = _KEPT
        return response


def _version(folders: Sequence[Path]) -> str:
    """Return a text that is another one when a file has changed."""
    digest = hashlib.sha256()
    for folder in folders:
        for file in sorted(folder.iterdir()):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


_BODY_BYTES = 64 * 1024 * 1024

_encode = msgspec.json.Encoder(enc_hook=str).encode


def json_response(value: Any, status: int = 200) -> Response:
    """Return a response with a JSON value; structs are objects."""
    try:
        text = _encode(value)
    except UnicodeEncodeError:  # a lone surrogate in a text of the agent
        text = lenient_json.dumps(msgspec.to_builtins(value, enc_hook=str))
    return Response(text, status, media_type="application/json")


async def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request; raise `ApiError` for another body."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > _BODY_BYTES:
            raise ApiError(413, f"The request exceeds {_BODY_BYTES} bytes")
    try:
        value = lenient_json.loads(b"".join(parts) or b"{}")
    except lenient_json.NotJson as error:
        raise ApiError(400, f"Expected a JSON object: {error}") from None
    if not lenient_json.is_object(value):
        raise ApiError(400, "Expected a JSON object")
    return value
