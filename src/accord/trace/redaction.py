"""Removes secrets from frames before they are written."""

from __future__ import annotations

from typing import Any

from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.text.redact import MASK
from accord.text.secret_places import redacted_json, redacted_text

__all__ = ("redacted_frame",)

_LOGINS = frozenset(("authenticate", "auth/login"))
_KEPT = frozenset(("methodId",))


def redacted_frame(frame: bytes | bytearray) -> bytes | None:
    """Return the frame without secrets, or None if it has none (R-TRACE-05).

    Replaced is what `redacted_json` replaces, and everything in the params of a login except the
    method. A frame that is not JSON is a line of text.
    """
    try:
        value = lenient_json.loads(frame)
    except lenient_json.NotJson:
        text = frame.decode("utf-8", "surrogateescape")
        new = redacted_text(text)
        return None if new == text else new.encode("utf-8", "surrogateescape")
    message = redacted_json(_without_login(value))
    return None if message is value else lenient_json.dumps(message)


def _without_login(value: Any) -> Any:
    """Return a message without the params of a login; the same object for any other."""
    if is_array(value):
        messages = [_without_login(item) for item in value]
        changed = any(new is not old for new, old in zip(messages, value, strict=True))
        return messages if changed else value
    if not is_object(value) or value.get("method") not in _LOGINS:
        return value
    params = value.get("params")
    if not is_object(params):
        return value
    hidden = {key: item if key in _KEPT else _hidden(item) for key, item in params.items()}
    return {**value, "params": hidden} if hidden != params else value


def _hidden(value: Any) -> Any:
    """Replace a value; an empty text, null and a boolean are not secrets."""
    return value if value is None or isinstance(value, bool) or value in ("", MASK) else MASK
