"""Removes secrets from frames before they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object

__all__ = ("REDACTED", "may_have_secrets", "redacted_argv", "redacted_frame")

REDACTED = "[redacted]"

# Their values are lists of `{"name": …, "value": …}`, or objects.
_NAMED_VALUES = frozenset(("env", "headers", "environment"))
_SECRETS = frozenset(
    (
        "authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "x-api-key",
        "apikey",
        "api_key",
        "api-key",
        "access_token",
        "accesstoken",
        "refresh_token",
        "refreshtoken",
        "id_token",
        "client_secret",
        "clientsecret",
        "password",
    )
)
_AUTH_METHODS = frozenset(("authenticate", "auth/login"))
_AUTH_KEPT = frozenset(("methodId",))
# A frame in lower case without any of these has no such key.
_MARKS = (
    b'"env',
    b'headers"',
    b'authorization"',
    b'cookie"',
    b'key"',
    b'token"',
    b'secret"',
    b'password"',
    b'"authenticate"',
    b'"auth/login"',
)
_SECRET_OPTION = re.compile(r"(?i)(-{0,2}[\w-]*(?:token|api-?key|password|secret))(=.*)?$")


def redacted_frame(frame: bytes | bytearray) -> bytes | None:
    """Return the frame without secrets, or None if it has none (R-TRACE-05).

    Replaced are the values of environment variables and headers, tokens and passwords by the names
    of their keys, and everything in the params of a login except the method.
    """
    if not may_have_secrets(frame):
        return None
    try:
        value = lenient_json.loads(frame)
    except lenient_json.NotJson:
        return None
    found = _Redaction()
    new = found.message(value)
    return lenient_json.dumps(new) if found.changed else None


def may_have_secrets(text: bytes | bytearray) -> bool:
    """Return False if a text, of one frame or of many, has nothing to redact."""
    lower = text.lower()
    return any(mark in lower for mark in _MARKS)


def redacted_argv(argv: Sequence[str]) -> list[str]:
    """Return a command line without the values of options such as `--token`."""
    words: list[str] = []
    is_secret = False
    for word in argv:
        match = _SECRET_OPTION.match(word)
        if is_secret and not word.startswith("-"):
            words.append(REDACTED)
            is_secret = False
        elif match is not None and match[2] is not None:
            words.append(f"{match[1]}={REDACTED}")
            is_secret = False
        else:
            words.append(word)
            is_secret = match is not None and word.startswith("-")
    return words


class _Redaction:
    def __init__(self) -> None:
        self.changed = False

    def message(self, value: Any) -> Any:
        if is_array(value):
            return [self.message(item) for item in value]
        if not is_object(value):
            return value
        params = value.get("params")
        if value.get("method") in _AUTH_METHODS and is_object(params):
            value = dict(value)
            value["params"] = {
                key: item if key in _AUTH_KEPT else self._hidden(item)
                for key, item in params.items()
            }
        return self._walk(value, 0)

    def _walk(self, value: Any, depth: int) -> Any:
        if depth > 100:
            return value
        if is_object(value):
            return {key: self._field(key, item, depth) for key, item in value.items()}
        if is_array(value):
            return [self._walk(item, depth + 1) for item in value]
        return value

    def _field(self, key: str, value: Any, depth: int) -> Any:
        name = key.lower()
        if name in _NAMED_VALUES:
            return self._named(value, depth)
        if name in _SECRETS:
            return self._hidden(value)
        return self._walk(value, depth + 1)

    def _named(self, value: Any, depth: int) -> Any:
        if is_object(value):
            return {key: self._hidden(item) for key, item in value.items()}
        if is_array(value):
            return [self._pair(item, depth) for item in value]
        return value

    def _pair(self, item: Any, depth: int) -> Any:
        if isinstance(item, str):  # NAME=VALUE
            name, separator, rest = item.partition("=")
            return f"{name}={self._hidden(rest)}" if separator else item
        if not is_object(item):
            return item
        return {
            key: self._hidden(part) if key == "value" else self._walk(part, depth + 1)
            for key, part in item.items()
        }

    def _hidden(self, value: Any) -> Any:
        """Replace a string or number; an empty text, null and a boolean are not secrets."""
        if value is None or isinstance(value, bool) or value in ("", REDACTED):
            return value
        self.changed = True
        return REDACTED
