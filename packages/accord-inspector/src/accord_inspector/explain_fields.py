"""The fields of a value, each with its type, as the wire types of a version describe them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from accord.text.excerpt import excerpt
from accord.text.lenient_json import is_array, is_object
from accord.wire.describe import (
    Anything,
    Boolean,
    Field,
    Integer,
    Kind,
    List,
    Mapping,
    Null,
    Number,
    Object,
    Shape,
    Text,
    describe,
)
from accord_conformance.traffic.message import Member, VisitedKey, find_problems, owner_of

_KEY = 100  # characters of a key in a path, as in `find_problems`
_NAMES = 6  # of types or values, in the text of a shape


class Place(NamedTuple):
    """A value at a path: its field, if it is one, and the class of the value, if it has one."""

    path: str
    visit: VisitedKey
    field: Field | None
    cls: type[Struct] | None
    shape: Shape


def places_of(tp: Any, value: Any) -> Iterator[Place]:
    """Yield the places in a value, parents first; paths are those of `find_problems`."""
    yield from _value(describe(tp), value, "$", owner_of(tp), "", (), None)


def doc_of(cls: type[Struct] | None) -> str:
    """Return the docstring of a wire type."""
    doc = None if cls is None else cls.__dict__.get("__doc__")
    return inspect.cleandoc(doc) if isinstance(doc, str) else ""


def text_of_shape(shape: Shape) -> str:
    """Return a type for a person: `string or null`, `array of TextContent or ImageContent`."""
    names = list(dict.fromkeys(_name(kind) for kind in shape if not isinstance(kind, Null)))
    shown = [*names[:_NAMES], *([f"{len(names) - _NAMES} more"] if len(names) > _NAMES else [])]
    null = ["null"] if Null() in shape else []
    return " or ".join([*shown, *null])


def _value(
    shape: Shape,
    value: Any,
    path: str,
    owner: Any,
    key: str,
    within: tuple[Member, ...],
    field: Field | None,
) -> Iterator[Place]:
    kind = _fitting(shape, value)
    cls = kind.cls if isinstance(kind, Object) else None
    yield Place(path, VisitedKey(owner, key, within), field, cls, shape)
    match kind:
        case List(item) if is_array(value):
            for index, entry in enumerate(value):
                yield from _value(item, entry, f"{path}[{index}]", owner, key, within, None)
        case Mapping(item) if is_object(value):
            inner = (*within, (owner, key)) if key else within
            for name, entry in value.items():
                at = f"{path}.{excerpt(name, _KEY)}"
                yield from _value(item, entry, at, owner, name, inner, None)
        case Object(name=name, fields=fields) if is_object(value):
            inner = (*within, (owner, key)) if key else within
            of = owner_of(kind.cls) if name else owner
            for member, entry in value.items():
                known = fields.get(member)
                if known is not None:
                    at = f"{path}.{excerpt(member, _KEY)}"
                    yield from _value(known.shape, entry, at, of, member, inner, known)
        case _:
            pass


def _fitting(shape: Shape, value: Any) -> Kind | None:
    """Return the alternative that describes a value, if one does."""
    if is_array(value):
        return next((kind for kind in shape if isinstance(kind, List)), None)
    if not is_object(value):
        return None
    objects = [kind for kind in shape if isinstance(kind, Object)]
    exact = [
        kind
        for kind in objects
        if kind.tags and not kind.rest and all(value.get(key) == tag for key, tag in kind.tags)
    ]
    if exact:
        return exact[0]
    rests = [kind for kind in objects if kind.rest and kind.rest.tag_field in value]
    if rests:
        return rests[-1]
    plain = [kind for kind in objects if not kind.tags and not kind.rest and kind.cls is not None]
    if plain:
        return min(plain, key=lambda kind: len(find_problems(kind.cls, value)))
    return next((kind for kind in shape if isinstance(kind, Mapping)), None)


def _name(kind: Kind) -> str:
    match kind:
        case Text(values=frozenset() as values, open=is_open):
            names = sorted(values)
            shown = ", ".join(f'"{name}"' for name in names[: 2 * _NAMES])
            more = ", …" if is_open or len(names) > 2 * _NAMES else ""
            return f"{shown}{more}" if len(names) == 1 else f"one of {shown}{more}"
        case Text():
            return "string"
        case List(item):
            return f"array of {text_of_shape(item)}"
        case Object(name=name):
            return name or "object"
        case Mapping():
            return "object"
        case Integer(low, high):
            return f"integer from {low} to {high}" if _is_small(low, high) else "integer"
        case Number():
            return "number"
        case Boolean():
            return "boolean"
        case Anything():
            return "any JSON"
        case Null():
            return "null"


def _is_small(low: int | None, high: int | None) -> bool:
    return low is not None and high is not None and high - low < 100_000
