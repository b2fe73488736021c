"""A token in the list of WebSocket subprotocols: web pages cannot set the header (R-WS-18)."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode

SUBPROTOCOL = "acp.bearer"


def token_in(headers: dict[str, list[str]]) -> str | None:
    """Return the token that a client offers as the second of exactly two subprotocols."""
    offered = [name.strip() for name in ",".join(headers.get(_HEADER, [])).split(",")]
    prefix = f"{SUBPROTOCOL}."
    if len(offered) != 2 or offered[0] != SUBPROTOCOL or not offered[1].startswith(prefix):
        return None
    encoded = offered[1].removeprefix(prefix).rstrip("=")
    try:
        return urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, ValueError):
        return None


def with_token(headers: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the headers as if the offered token had come in `Authorization`."""
    token = token_in(headers)
    rest = {name: values for name, values in headers.items() if name != _HEADER}
    if token is None or "authorization" in rest:
        return rest
    return {**rest, "authorization": [f"Bearer {token}"]}


_HEADER = "sec-websocket-protocol"
