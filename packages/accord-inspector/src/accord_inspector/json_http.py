"""Requests and responses in JSON, and the errors that the page shows."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from accord.text import lenient_json

_BODY_BYTES = 64 * 1024 * 1024

_encode = msgspec.json.Encoder(enc_hook=str).encode


class ApiError(Exception):
    """A request of the page that cannot be served: an HTTP status, and a text for the user."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: int = status
        self.text: str = text


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
