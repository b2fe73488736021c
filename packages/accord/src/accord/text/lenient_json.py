"""JSON text that msgspec rejects: lone surrogates, numbers that are too large."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeGuard

import msgspec


class NotJson(ValueError):
    """The text is not JSON; the message has the position."""


class NumberText(str):
    """The text of a number that Python cannot represent; it does not count as a string."""

    __slots__ = ()


_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def whole(value: Any) -> Any:
    """Return a float without a fraction as an integer, and any other value unchanged.

    JSON has one type of numbers, and in JSON Schema 1.0 is an integer.
    """
    return int(value) if type(value) is float and value.is_integer() else value


def loads(text: bytes | bytearray) -> Any:
    """Return the value of a JSON text; raise `NotJson`.

    Lone surrogate escapes are kept (JavaScript writes such strings), a byte order mark is skipped,
    and invalid UTF-8 becomes replacement characters (R-STDIO-11). Text that is nested too deeply is
    rejected. A number that is too large for Python becomes a string with its text: as a float,
    1e400 would be infinity, which JSON cannot represent.
    """
    try:
        return _decode(text)
    except RecursionError:
        raise NotJson("nested too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        reason = str(exc)
    return _loads(text, str, reason)


def loads_marking(text: bytes | bytearray) -> tuple[Any, bool]:
    """Return what `loads` returns, with `NumberText` for such numbers, and whether one occurs."""
    found = False

    def mark(number: str) -> NumberText:
        nonlocal found
        found = True
        return NumberText(number)

    try:
        return _decode(text), False
    except RecursionError:
        raise NotJson("nested too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        reason = str(exc)
    return _loads(text, mark, reason), found


def _loads(text: bytes | bytearray, too_large: Callable[[str], str], reason: str) -> Any:
    def decimal(number: str) -> float | str:
        value = float(number)
        return value if math.isfinite(value) else too_large(number)

    def integer(number: str) -> int | str:
        try:
            return int(number)
        except ValueError:  # more digits than Python converts
            return too_large(number)

    try:
        return json.loads(
            text.decode("utf-8-sig", "replace"),
            parse_float=decimal,
            parse_int=integer,
            parse_constant=_no_constant,
        )
    except RecursionError:
        raise NotJson("nested too deep") from None
    except ValueError:
        raise NotJson(reason) from None


def member_texts(text: bytes | bytearray) -> dict[str, bytes]:
    """Return the members of an object as the bytes of their values.

    The text must be an object that `loads` accepts. It is empty for invalid UTF-8, whose bytes
    should not be passed on.
    """
    try:
        characters = text.decode("utf-8-sig")
    except UnicodeDecodeError:
        return {}
    decode = json.JSONDecoder().raw_decode
    members: dict[str, bytes] = {}
    at = _skip(characters, characters.index("{") + 1)
    while characters[at] != "}":
        key, at = decode(characters, at)
        start = _skip(characters, _skip(characters, at) + 1)
        _, at = decode(characters, start)
        members[key] = characters[start:at].encode()
        at = _skip(characters, at)
        if characters[at] == ",":
            at = _skip(characters, at + 1)
    return members


def dumps(value: Any) -> bytes:
    """Return the JSON text of builtin values; lone surrogates are written as escapes."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return True if a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return True if a JSON value is an array."""
    return isinstance(value, list)


def _skip(characters: str, at: int) -> int:
    """Return the position after white space."""
    while characters[at] in " \t\r\n":
        at += 1
    return at


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
