"""What HTTP must know of a message: its session, its id, and what it answers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.text import lenient_json
from accord.transports.base import Frame

CANCEL_REQUEST = "$/cancel_request"
OPENS_SESSION = frozenset(("session/new", "session/fork"))
REATTACHES = frozenset(("session/load", "session/resume"))


class Outgoing(Struct, frozen=True, gc=False):
    """A message of this side. `id` is its JSON text: `1` and `"1"` differ."""

    kind: Literal["request", "notification", "answer"]
    id: bytes | None = None
    method: str = ""
    session: str | None = None
    cancels: bytes | None = None  # the id of the request that it cancels


class Incoming(Struct, frozen=True, gc=False):
    """A message of the other side that has an id, or announces a subagent."""

    id: bytes | None
    method: str | None
    body: Raw | None  # its result, else its params


class _Head(Struct, gc=False):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET


class _OfSession(Struct, rename="camel", gc=False):
    session_id: Any = None
    request_id: Raw | UnsetType = UNSET
    protocol_version: Any = None


class _Update(Struct, rename="camel", gc=False):
    session_update: Any = None
    session_id: Any = None


class _OfUpdate(Struct, gc=False):
    update: _Update


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_session = msgspec.json.Decoder(_OfSession).decode
_decode_update = msgspec.json.Decoder(_OfUpdate).decode
_UNKNOWN = _OfSession()


def read_outgoing(frame: Frame) -> Outgoing:
    """Return what a message of this side is; one that cannot be read has no session."""
    head = _head(frame)
    if head is None:
        return Outgoing("notification")
    request_id = None if head.id is UNSET else bytes(head.id)
    if head.method is UNSET:
        return Outgoing("answer" if request_id is not None else "notification", request_id)
    params = _of_session(head.params)
    cancels = None
    if head.method == CANCEL_REQUEST and params.request_id is not UNSET:
        cancels = bytes(params.request_id)
    session = params.session_id if isinstance(params.session_id, str) else None
    kind = "notification" if request_id is None else "request"
    return Outgoing(kind, request_id, head.method, session, cancels)


def read_incoming(frame: Frame) -> Incoming | None:
    """Return the head of a message that is a request, an answer or about a subagent, else None."""
    # Streamed text is neither; a quotation mark inside a JSON string has a backslash before it.
    if b'"id"' not in frame and b'"subagent_update"' not in frame:
        return None
    head = _head(frame)
    if head is None:
        return None
    body = head.params if head.result is UNSET else head.result
    return Incoming(
        None if head.id is UNSET else bytes(head.id),
        None if head.method is UNSET else head.method,
        None if body is UNSET else body,
    )


def session_of_result(body: Raw | None) -> str | None:
    """Return the session id in a result."""
    session = _of_session(UNSET if body is None else body).session_id
    return session if isinstance(session, str) else None


def version_of(body: Raw | None) -> int | None:
    """Return the protocol version in the result of `initialize`."""
    version = lenient_json.whole(_of_session(UNSET if body is None else body).protocol_version)
    return version if type(version) is int else None


def session_of_subagent(body: Raw | None) -> str | None:
    """Return the id of the session that an update announces (R-HTTP-33)."""
    if body is None:
        return None
    try:
        update = _decode_update(body).update
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if update.session_update != "subagent_update" or not isinstance(update.session_id, str):
        return None
    return update.session_id


def error_frame(request_id: bytes, message: str, data: dict[str, Any]) -> bytes:
    """Return the answer that fails a request of this side."""
    error = lenient_json.dumps({"code": -32603, "message": message, "data": data})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, error)


def _head(frame: Frame) -> _Head | None:
    try:
        return _decode_head(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _of_session(body: Raw | UnsetType) -> _OfSession:
    if body is UNSET:
        return _UNKNOWN
    try:
        return _decode_session(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _UNKNOWN
