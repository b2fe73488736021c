"""What the HTTP server reads of a message: its kind, its id and its session."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from accord.text import lenient_json

ID_LENGTH = 1024  # UTF-16 code units of an id (R-HTTP-22)

# Their params have a session, in v1 or in both versions; "set_model" is that of older peers.
SESSION_METHODS: Final = frozenset(
    f"session/{name}"
    for name in (
        *("cancel", "close", "delete", "fork", "load", "prompt", "resume"),
        *("set_config_option", "set_mode", "set_model"),
    )
)


class _WithSession(Struct, gc=False):
    session_id: Any = msgspec.field(default=UNSET, name="sessionId")


_Value: TypeAlias = _WithSession | list[msgspec.Raw] | str | int | float | bool | None | UnsetType


class _Envelope(Struct, gc=False):
    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    params: _Value = UNSET
    result: _Value = UNSET
    error: msgspec.Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Envelope).decode


class MessageHead(Struct, gc=False):
    """The parts of a message that decide where it goes.

    `session` is that of the params, or of the result of a response.
    """

    kind: Literal["request", "notification", "response", "unknown"]
    id: Any = None  # of another JSON type than string and number: None
    method: str = ""
    session: str | None = None
    has_null_id: bool = False
    failed: bool = False  # an error response


class NotAMessage(ValueError):
    """The text is not a JSON object; `is_array` if it is an array, `is_json` if it is JSON."""

    def __init__(self, *, is_json: bool, is_array: bool = False) -> None:
        super().__init__("not a JSON object")
        self.is_json = is_json
        self.is_array = is_array


def read_message(text: bytes | bytearray) -> MessageHead:
    """Return the head of a message, of which nothing else is decoded; raise `NotAMessage`."""
    try:
        envelope = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        envelope = _read_leniently(text)
    has_id = envelope.id is not UNSET
    message_id = envelope.id if type(envelope.id) in (int, str, float) else None
    has_null_id = has_id and envelope.id is None
    method = envelope.method
    if envelope.jsonrpc != "2.0":
        return MessageHead("unknown")
    if type(method) is str:
        kind = "request" if has_id else "notification"
        return MessageHead(kind, message_id, method, _session(envelope.params), has_null_id)
    failed = envelope.error is not UNSET
    if method is UNSET and has_id and (failed or envelope.result is not UNSET):
        session = _session(envelope.result)
        return MessageHead("response", message_id, "", session, has_null_id, failed)
    return MessageHead("unknown", message_id, "", None, has_null_id)


def _session(value: Any) -> str | None:
    found = value.session_id if type(value) is _WithSession else None
    return found if type(found) is str else None


def _read_leniently(text: bytes | bytearray) -> _Envelope:
    """Read what the decoder rejects, such as lone surrogates."""
    try:
        value = lenient_json.loads(text)
    except lenient_json.NotJson:
        raise NotAMessage(is_json=False) from None
    if not lenient_json.is_object(value):
        raise NotAMessage(is_json=True, is_array=lenient_json.is_array(value))
    return _Envelope(
        value.get("jsonrpc", UNSET),
        value.get("id", UNSET),
        value.get("method", UNSET),
        _value(value.get("params", UNSET)),
        _value(value.get("result", UNSET)),
        msgspec.Raw(b"null") if "error" in value else UNSET,
    )


def _value(value: Any) -> Any:
    return _WithSession(value.get("sessionId", UNSET)) if lenient_json.is_object(value) else value
