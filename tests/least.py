"""The smallest value of a type: a message with its required fields only."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Struct
from msgspec.structs import fields

from accord.wire.base import Members, Unknown

_SCALARS: dict[Any, Any] = {str: "text", int: 1, float: 1.0, bool: True, type(None): None}


def least(tp: Any) -> Any:
    """Return a value of a type with its required fields only."""
    origin = get_origin(tp)
    if origin is Annotated:
        inner, *marks = get_args(tp)
        unions = [mark.union for mark in marks if isinstance(mark, Members)]
        if get_origin(inner) is list and any(getattr(mark, "min_length", None) for mark in marks):
            return [least(get_args(inner)[0])]
        return least(unions[0] if unions else inner)
    if origin is Literal:
        return get_args(tp)[0]
    if origin in (Union, types.UnionType):
        return least(next(part for part in get_args(tp) if part not in (Unknown, type(UNSET))))
    if origin is list:
        return []
    if origin is dict or tp is dict:
        return {}
    if tp is Any:
        return {}
    if isinstance(tp, type) and issubclass(tp, Struct):
        hints = get_type_hints(tp, include_extras=True)
        needed = {f.name: least(hints[f.name]) for f in fields(tp) if f.required}
        if "Elicitation" in tp.__name__ and "session_id" in hints:
            needed["session_id"] = "s"  # one of two ids
        return tp(**needed)
    return _SCALARS[tp]
