"""The responses of the HTTP server that are not streams."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from accord.remote.access import Refusal
from accord.remote.asgi_types import Event, Scope, Send, headers_of

_encode = msgspec.json.Encoder().encode
_CODES = {404: -32002, 408: -32603, 409: -32603, 413: -32603, 429: -32603}  # R-HTTP-50
_HEADERS = "Acp-Connection-Id, Acp-Session-Id, Acp-Protocol-Version, Last-Event-ID"
_NO_STORE = (b"cache-control", b"no-store")


async def respond(
    send: Send,
    status: int,
    body: bytes = b"",
    content_type: str = "",
    headers: Sequence[tuple[str, str]] = (),
) -> None:
    """Send a complete response."""
    sent = [(b"content-length", str(len(body)).encode()), _NO_STORE]
    if content_type:
        sent.append((b"content-type", content_type.encode()))
    sent += ((name.lower().encode(), value.encode()) for name, value in headers)
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


async def respond_json(
    send: Send, status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()
) -> None:
    """Send a response with a JSON text."""
    await respond(send, status, body, "application/json", headers)


async def respond_refusal(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Send a JSON-RPC error if the client accepts JSON, else a line of text (R-HTTP-50)."""
    if not _accepts_json(headers_of(scope).get("accept", [])):
        text = f"{refusal.text}\n".encode()
        await respond(send, refusal.status, text, "text/plain; charset=utf-8", refusal.headers)
        return
    status = refusal.status
    error: dict[str, object] = {
        "code": _CODES.get(status, -32600 if status < 500 else -32603),
        "message": refusal.text,
    }
    if refusal.kind:
        error["data"] = {"kind": refusal.kind}
    body = _encode({"jsonrpc": "2.0", "id": None, "error": error})
    await respond_json(send, status, body, refusal.headers)


def _accepts_json(values: Sequence[str]) -> bool:
    accepted = {part.partition(";")[0].strip().lower() for v in values for part in v.split(",")}
    return not values or not accepted.isdisjoint(("application/json", "application/*", "*/*"))


async def cors_preflight(send: Send) -> None:
    """Answer a browser that asks whether a page of an allowed origin may send a request."""
    headers = (
        ("Access-Control-Allow-Methods", "GET, POST, DELETE"),
        ("Access-Control-Allow-Headers", f"Authorization, Content-Type, {_HEADERS}"),
        ("Access-Control-Max-Age", "600"),
    )
    await respond(send, 204, headers=headers)


def allow_origin(send: Send, origin: str) -> Send:
    """Return `send` with the headers by which a browser passes responses to a page (R-HTTP-46)."""
    added = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _HEADERS.encode()),
        (b"vary", b"origin"),
    ]

    async def sending(event: Event) -> None:
        if event["type"] == "http.response.start":
            event["headers"] = [*event["headers"], *added]
        await send(event)

    return sending
