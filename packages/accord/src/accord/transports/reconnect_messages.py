"""What reconnecting must know of messages, and the messages that it sends itself."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.text import lenient_json
from accord.transports.base import Frame


class _Message(Struct, gc=False):
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Update(Struct, rename="camel", gc=False):
    session_update: str | None = None
    state: str | None = None


class _Notification(Struct, rename="camel", gc=False):
    session_id: str | None = None
    update: _Update | None = None


class _Params(Struct, gc=False):
    params: _Notification | None = None


class _Session(Struct, gc=False):
    resume: Any = None


class _Capabilities(Struct, rename="camel", gc=False):
    load_session: Any = False
    session_capabilities: _Session | None = None


class _Error(Struct, gc=False):
    code: Any = None


class _Failed(Struct, gc=False):
    error: _Error | None = None


class _Initialized(Struct, rename="camel", gc=False):
    protocol_version: Any = None
    agent_capabilities: _Capabilities | None = None


_read = msgspec.json.Decoder(_Message).decode
_read_params = msgspec.json.Decoder(_Params).decode
_read_failed = msgspec.json.Decoder(_Failed).decode
_read_initialized = msgspec.json.Decoder(_Initialized).decode
AUTH_REQUIRED = -32000
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def opening_method(result: Raw) -> str | None:
    """Return the method that opens a session again, preferably without a replay.

    `result` is that of `initialize`. Return None if the agent offers none.
    """
    try:
        initialized = _read_initialized(result)
    except _MALFORMED:
        return None
    if initialized.protocol_version == 2:
        return "session/resume"
    offered = initialized.agent_capabilities or _Capabilities()
    if offered.session_capabilities is not None and offered.session_capabilities.resume is not None:
        return "session/resume"
    return "session/load" if offered.load_session is True else None


def requires_login(response: Frame) -> bool:
    """Return whether a response is the error `auth_required` (R-AUTH-12)."""
    try:
        error = _read_failed(response).error
    except _MALFORMED:
        return False
    return error is not None and error.code == AUTH_REQUIRED


def reopening_params(opening: Frame, session: str) -> bytes:
    """Return the params that open a session again, from the request that opened it."""
    params = lenient_json.loads(params_of(opening))
    params.pop("replayFrom", None)
    return lenient_json.dumps({**params, "sessionId": session})


def params_of(frame: Frame) -> bytes:
    """Return the params of a message as JSON text."""
    params = _read(frame).params
    return b"{}" if params is UNSET else bytes(params)


def request_frame(method: str, params: bytes, request_id: bytes | None = None) -> bytes:
    """Return a request, or a notification if there is no id."""
    name = lenient_json.dumps(method)
    if request_id is None:
        return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (name, params)
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (request_id, name, params)


def cancel_frame(request_id: bytes) -> bytes:
    """Return the notification that cancels a request."""
    return request_frame("$/cancel_request", b'{"requestId":%b}' % request_id)


def with_id(frame: Frame, request_id: bytes) -> bytes:
    """Return a request or an answer with another id."""
    message = _read(frame)
    if message.method is not UNSET:
        return request_frame(message.method, params_of(frame), request_id)
    is_error = message.result is UNSET
    body = message.error if is_error else message.result
    text = b"null" if body is UNSET else bytes(body)
    return b'{"jsonrpc":"2.0","id":%b,"%b":%b}' % (
        request_id,
        b"error" if is_error else b"result",
        text,
    )


def read_update(frame: Frame) -> _Notification | None:
    """Return the session, the type and the state of an update; None for any other message."""
    try:
        return _read_params(frame).params
    except _MALFORMED:
        return None
