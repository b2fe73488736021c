"""What a WebSocket connection begins with: `initialize`, once (R-WS-02, R-WS-06)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from accord.text import lenient_json
from accord.transports.base import Frame

# A proxy is initialized by the second, in the Rust SDK by the third.
INITIALIZE: tuple[str, ...] = ("initialize", "proxy/initialize", "_proxy/initialize")

# A frame is passed on, dropped, or answered with another one; or the connection is closed.
Verdict: TypeAlias = Literal["pass", "drop", "close"] | bytes


class _Head(Struct):
    id: Any = UNSET
    method: Any = UNSET


_head = msgspec.json.Decoder(_Head)


class FirstMessage:
    """Decides about the frames of one client."""

    def __init__(self) -> None:
        self._has_begun = False

    def verdict(self, frame: Frame, *, may_initialize: bool) -> Verdict:
        """Return what to do with a frame; a second `initialize` needs `may_initialize`."""
        if self._has_begun and (may_initialize or b"initialize" not in frame):
            return "pass"
        try:
            head = _head.decode(frame)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return "pass"  # the agent answers it
        is_initialize = head.method in INITIALIZE
        if self._has_begun:
            return _answer(head.id) if is_initialize and head.id is not UNSET else "pass"
        if head.method is UNSET:
            return "drop"  # a stray response
        if not is_initialize or head.id is UNSET or head.id is None:
            return "close"
        self._has_begun = True
        return "pass"


def _answer(request_id: Any) -> bytes:
    error = {"code": -32600, "message": "The connection is already initialized"}
    return lenient_json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error})
