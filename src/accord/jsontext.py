"""JSON text that other programs write and msgspec refuses: lone surrogates, broken UTF-8."""

from __future__ import annotations

import json
import math
import sys
from typing import Any, NoReturn, TypeGuard

import msgspec

__all__ = ("NotJson", "dumps", "is_array", "is_object", "loads")


class NotJson(ValueError):
    """The text is not JSON; the message says where it stops being it."""


_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def loads(text: bytes | bytearray) -> Any:
    """Return the value of a JSON text; raise `NotJson`.

    A lone surrogate escape is kept (JavaScript writes such strings), a byte order mark is left
    out, invalid UTF-8 becomes replacement characters (R-STDIO-11), and whatever is nested too
    deep is not JSON.
    """
    try:
        return _decode(text)
    except RecursionError:
        raise NotJson("nested too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        reason = str(exc)
    try:
        return json.loads(
            text.decode("utf-8-sig", "replace"), parse_float=_finite, parse_constant=_no_constant
        )
    except RecursionError:
        raise NotJson("nested too deep") from None
    except ValueError:
        raise NotJson(reason) from None


def dumps(value: Any) -> bytes:
    """Return the JSON text of builtin values; lone surrogates are written as escapes."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a JSON value is an array."""
    return isinstance(value, list)


def _finite(text: str) -> float:
    """Read 1e400 as the largest number there is: infinity could not be written again."""
    number = float(text)
    return number if math.isfinite(number) else math.copysign(sys.float_info.max, number)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
