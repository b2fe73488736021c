"""Errors about a value that is not one of a few: they name the expected ones."""

from __future__ import annotations

import re
from typing import Any

from msgspec import ValidationError, inspect

_ERROR = re.compile(r"(Invalid enum value .*?)( - at `(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


def validation_text(error: ValidationError, expected: Any) -> str:
    """Return the text of an error of msgspec; `expected` is the type that was decoded."""
    text = str(error)
    found = _ERROR.fullmatch(text)
    if found is None:
        return text
    values = _values(inspect.type_info(expected), _STEP.findall(found[3] or ""))
    if not values:
        return text
    return f"{found[1]}, expected {' or '.join(map(repr, values))}{found[2] or ''}"


def _values(kind: inspect.Type, path: list[str]) -> list[Any]:
    """Return the values of the type at a path: names of fields, or nothing for an item."""
    match kind:
        case inspect.UnionType(types=types):
            return [value for one in types for value in _values(one, path)]
        case inspect.Metadata(type=inner):
            return _values(inner, path)
        case inspect.LiteralType(values=values) if not path:
            return list(values)
        case inspect.EnumType(cls=cls) if not path:
            return [member.value for member in cls]
        case inspect.StructType(fields=fields) if path:
            inner_types = [field.type for field in fields if field.encode_name == path[0]]
            return [value for one in inner_types for value in _values(one, path[1:])]
        case inspect.DictType(value_type=inner) if path:
            return _values(inner, path[1:])
        case inspect.CollectionType(item_type=inner) if path:
            return _values(inner, path[1:])
        case _:
            return []
