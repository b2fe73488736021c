"""Checks the types of arguments at the call, before a wrong value is sent."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Union, cast

from msgspec import Struct

from accord.text.excerpt import excerpt

_Kinds = tuple[type, ...]
_Field = tuple[str, _Kinds, _Kinds | None]  # name, types, types of its elements

_known: dict[type, list[_Field]] = {}


class ValidatedStruct(Struct, frozen=True):
    """A struct that raises `TypeError` if a field does not have its annotated type."""

    def __post_init__(self) -> None:
        cls = type(self)
        fields = _known.get(cls)
        if fields is None:
            fields = _known[cls] = list(_fields_of(cls))
        for name, kinds, elements in fields:
            value = getattr(self, name)
            if type(value) not in kinds:
                require_type(f"{cls.__name__}({name}=…)", value, *kinds)
            if elements is not None:
                require_types(f"{cls.__name__}({name}=…)", value, *elements)


def require_type(where: str, value: object, *kinds: type) -> None:
    """Raise `TypeError` unless a value has one of the types; `where` names the argument."""
    if not isinstance(value, kinds) or (type(value) is bool and bool not in kinds):
        raise type_error(where, value, *kinds)


def require_types(where: str, values: object, *kinds: type) -> list[Any]:
    """Return the items of an iterable, which must have these types; a string is rejected."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise type_error(where, values, *kinds, expected="a list of ")
    found = list(cast("Iterable[Any]", values))
    for value in found:
        if type(value) not in kinds:
            require_type(f"{where}, one of them", value, *kinds)
    return found


def require_name(where: str, value: object, known: Iterable[str]) -> None:
    """Raise `ValueError` for an unknown name that does not begin with an underscore."""
    require_type(where, value, str)
    names = tuple(known)
    if value not in names and not cast("str", value).startswith("_"):
        own = "an extension name, which begins with an underscore"
        raise ValueError(f"{where}: expected {', '.join(names)} or {own}, got {value!r}")


def type_error(where: str, value: object, *kinds: type, expected: str = "") -> TypeError:
    """Return the error for a value of another type; `expected` comes before the types."""
    *most, last = ["None" if kind is type(None) else kind.__name__ for kind in kinds]
    expected += f"{', '.join(most)} or {last}" if most else last
    got = "None" if value is None else f"{type(value).__name__}: {excerpt(repr(value), 60)}"
    return TypeError(f"{where}: expected {expected}, got {got}")


def _fields_of(cls: type) -> Iterator[_Field]:
    for name, hint in typing.get_type_hints(cls).items():
        if typing.get_origin(hint) is typing.ClassVar:
            continue
        kinds = tuple(dict.fromkeys(_kinds_of(hint)))
        if object not in kinds:
            elements = typing.get_args(hint)[:1] if typing.get_origin(hint) is tuple else ()
            of = tuple(dict.fromkeys(kind for part in elements for kind in _kinds_of(part)))
            yield name, kinds, of or None


def _kinds_of(hint: Any) -> Iterator[type]:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        for part in typing.get_args(hint):
            yield from _kinds_of(part)
    elif origin is Literal:
        yield from map(type, typing.get_args(hint))
    elif hint is Any:
        yield object
    elif hint is float:
        yield from (float, int)
    elif hint is bytes:
        yield from (bytes, bytearray, memoryview)
    elif origin is tuple:
        yield from (tuple, list)
    else:
        yield hint if origin is None else origin
