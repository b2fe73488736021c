"""The agents' side of the gateway: requests, errors in the form of each API, disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any
from urllib.parse import parse_qsl

from accord.remote.access import Receive, Scope, Send
from accord_fleet.gateway.providers import Api

_BODY_BYTES = 64 * 2**20

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    413: "request_too_large",
}
_GOOGLE_STATUSES = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 502: "UNAVAILABLE"}


class Refusal(Exception):
    """A response of the gateway itself."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.status: int = status
        self.code: str = f"accord_{code}"


def token_of(scope: Scope) -> str:
    """Return the token of a request, wherever the API has its key; "" if there is none."""
    for name, value in scope["headers"]:
        text = value.decode("latin-1").strip()
        if name in (b"x-api-key", b"x-goog-api-key"):
            return text
        if name == b"authorization" and text[:7].lower() == "bearer ":
            return text[7:].strip()
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    return query.get("key", "")


async def read_body(receive: Receive) -> bytes:
    """Return the body of a request; raise `Refusal` if it is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise asyncio.CancelledError  # the agent has disconnected
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > _BODY_BYTES:
            raise Refusal(413, f"Expected a request of at most {_BODY_BYTES:,} bytes", "size")
        if not message.get("more_body", False):
            return b"".join(parts)


async def until_disconnect(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Do the work; cancel it when the agent disconnects."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait((working, leaving))
    if not working.cancelled():
        working.result()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def refuse(send: Send, refusal: Refusal, api: Api) -> None:
    """Send an error in the form of the API."""
    message = f"accord model gateway: {refusal}"
    error: dict[str, Any]
    match api:
        case "anthropic":
            kind = _ANTHROPIC_TYPES.get(refusal.status, "api_error")
            error = {"type": "error", "error": {"type": kind, "message": message}}
        case "google":
            status = _GOOGLE_STATUSES.get(refusal.status, "INVALID_ARGUMENT")
            error = {"error": {"code": refusal.status, "message": message, "status": status}}
        case _:
            kind = "invalid_request_error" if refusal.status < 500 else "server_error"
            error = {"error": {"message": message, "type": kind, "code": refusal.code}}
    body = json.dumps(error).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
