"""Describes wire types as plain data, for the printed JSON Schema and the schema proof.

A shape is the list of its alternatives. Tags are fields with one value, inherited and flattened
fields are included, and marks are at the place where they act. So equivalent types have equal
descriptions.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct, UnsetType

from accord.wire.base import (
    DEFAULT_ON_ERROR,
    DEFAULT_ON_NULL,
    OPEN,
    SKIP_INVALID,
    UNSET,
    UNSTABLE,
    Known,
    Mark,
    Members,
    Other,
)

__all__ = (
    "Anything",
    "Boolean",
    "Field",
    "Integer",
    "Kind",
    "List",
    "Mapping",
    "Null",
    "Number",
    "Object",
    "Rest",
    "Shape",
    "Text",
    "describe",
)


class Null(Struct, frozen=True):
    """JSON null."""


class Anything(Struct, frozen=True):
    """Any JSON."""


class Boolean(Struct, frozen=True):
    """true or false."""


class Integer(Struct, frozen=True):
    """An integer within bounds, which are included."""

    low: int | None = None
    high: int | None = None


class Number(Struct, frozen=True):
    """A number within bounds, which are included."""

    low: float | None = None
    high: float | None = None


class Text(Struct, frozen=True):
    """A string: any, one of `values`, or (`open`) any of which some are known."""

    values: frozenset[str] | None = None
    open: bool = False
    min_length: int = 0


class List(Struct, frozen=True):
    """A list; with `skip`, invalid items are omitted."""

    item: Shape
    min_items: int = 0
    skip: bool = False


class Mapping(Struct, frozen=True):
    """An object with any keys."""

    value: Shape


class Field(Struct, frozen=True):
    """A key of an object, and the meaning of absent, null and invalid values."""

    shape: Shape
    required: bool = False
    default: Any = None
    on_error: bool = False
    on_null: bool = False
    three_state: bool = False


class Rest(Struct, frozen=True):
    """An unknown variant: its tag field has none of the known values."""

    tag_field: str
    known: frozenset[str]


class Object(Struct, frozen=True, eq=False):
    """An object; `tags` are the fields whose single value identifies the variant."""

    name: str | None
    fields: dict[str, Field]
    tags: frozenset[tuple[str, str]] = frozenset()
    rest: Rest | None = None
    cls: type[Struct] | None = None
    # Groups of keys of which exactly one, or at least one, must be present.
    one_of: frozenset[str] = frozenset()
    any_of: frozenset[str] = frozenset()


Kind: TypeAlias = Null | Anything | Boolean | Integer | Number | Text | List | Mapping | Object
Shape: TypeAlias = tuple[Kind, ...]


@cache
def describe(tp: Any, *, unstable: bool = True) -> Shape:
    """Return the alternatives of a type; without `unstable` only those of the stable schema."""
    return _Walker(frozenset() if unstable else frozenset({UNSTABLE})).shape(tp)


class _Walker:
    def __init__(self, hidden: frozenset[Mark]) -> None:
        self.hidden = hidden

    def shape(self, tp: Any) -> Shape:
        inner, marks = _unwrap(tp)
        for mark in marks:
            if isinstance(mark, Members):
                return self._union(mark.union, marks)
        if _is_union(inner) or OPEN in marks:
            return self._union(inner, marks)
        if _is_struct(inner):
            return (_describe_struct(inner, self.hidden),)
        return (self._plain(inner, marks),)

    def _plain(self, tp: Any, marks: list[Any]) -> Kind:
        limits = _limits(marks)
        origin = get_origin(tp)
        if tp is Any:
            return Anything()
        if tp is None or tp is type(None):
            return Null()
        if tp is bool:
            return Boolean()
        if tp is int:
            return Integer(limits.get("ge"), limits.get("le"))
        if tp is float:
            return Number(limits.get("ge"), limits.get("le"))
        if tp is str:
            known = next((m.values for m in marks if isinstance(m, Known)), None)
            if known is not None:
                return Text(frozenset(known), open=True)
            return Text(min_length=limits.get("min_length", 0))
        if origin is Literal:
            return Text(frozenset(get_args(tp)))
        if origin is list:
            (item,) = get_args(tp)
            return List(self.shape(item), limits.get("min_length", 0), SKIP_INVALID in marks)
        if origin is dict:
            return Mapping(self.shape(get_args(tp)[1]))
        raise TypeError(f"no description for {tp!r}")

    def _union(self, tp: Any, marks: list[Any]) -> Shape:
        kinds: list[Kind] = []
        members: list[type[Struct]] = []
        for member in self._members(tp):
            if _is_struct(member):
                members.append(member)
            kinds += self.shape(member)
        if OPEN in marks:
            other = next((m.shape for m in marks if isinstance(m, Other)), None)
            kinds += self._others(members, other)
        return tuple(kinds)

    def _members(self, tp: Any) -> list[Any]:
        """Return the members of a union, including those of nested unions."""
        inner, marks = _unwrap(tp)
        if self._hides(inner, marks) or inner is UnsetType:
            return []
        if OPEN in marks:
            return [tp]
        for mark in marks:
            if isinstance(mark, Members):
                return self._members(mark.union)
        if _is_union(inner):
            return [member for part in get_args(inner) for member in self._members(part)]
        return [inner if _is_struct(inner) else tp]

    def _hides(self, inner: Any, marks: list[Any]) -> bool:
        if _is_struct(inner) and getattr(inner, "__unstable__", False):
            marks = [*marks, UNSTABLE]
        return bool(self.hidden.intersection(marks))

    def _others(self, members: list[type[Struct]], other: Any) -> list[Object]:
        """Return the unknown variants of an open union, one for each tag that can be unknown."""
        firsts: dict[str, set[str]] = {}
        seconds: dict[tuple[str, str, str], set[str]] = {}
        for member in members:
            config = member.__struct_config__
            if config.tag_field is None:
                continue
            tag = str(config.tag)
            firsts.setdefault(config.tag_field, set()).add(tag)
            for key, value in _second_tag(member).items():
                seconds.setdefault((config.tag_field, tag, key), set()).add(value)
        found: list[Object] = []
        base = Object(None, {}) if other is None else _describe_struct(other, self.hidden)
        for tag_field, known in firsts.items():
            found.append(_rest(base, tag_field, known))
        for (tag_field, tag, key), known in seconds.items():
            first = Object(None, {tag_field: _constant(tag)}, frozenset({(tag_field, tag)}))
            found.append(_rest(first, key, known))
        return found


def _rest(base: Object, tag_field: str, known: set[str]) -> Object:
    """Return the object with an unknown tag."""
    return Object(
        None,
        {tag_field: Field((Text(),), required=True), **base.fields},
        base.tags,
        Rest(tag_field, frozenset(known)),
        base.cls,
        base.one_of,
        base.any_of,
    )


@cache
def _describe_struct(cls: type[Struct], hidden: frozenset[Mark]) -> Object:
    walker = _Walker(hidden)
    hints = get_type_hints(cls, include_extras=True)
    config = cls.__struct_config__
    tags: dict[str, str] = _second_tag(cls)
    if config.tag_field is not None:
        tags = {config.tag_field: str(config.tag), **tags}
    fields = {key: _constant(value) for key, value in tags.items()}
    for info in msgspec.structs.fields(cls):
        if info.encode_name in fields:
            continue
        marks = _all_marks(hints[info.name])
        if hidden.intersection(marks):
            continue
        default = info.default
        if info.default_factory is not NODEFAULT:
            default = info.default_factory()
        fields[info.encode_name] = Field(
            shape=walker.shape(hints[info.name]),
            required=info.required,
            default=None if default in (NODEFAULT, UNSET) else msgspec.to_builtins(default),
            on_error=DEFAULT_ON_ERROR in marks,
            on_null=DEFAULT_ON_NULL in marks,
            three_state=default is UNSET,
        )
    return Object(
        cls.__name__,
        fields,
        frozenset(tags.items()),
        cls=cls,
        one_of=getattr(cls, "__one_of__", frozenset()),
        any_of=getattr(cls, "__any_of__", frozenset()),
    )


def _constant(value: str) -> Field:
    return Field((Text(frozenset({value})),), required=True)


def _second_tag(cls: type[Struct]) -> dict[str, str]:
    """Return the second constant that distinguishes members with the same tag."""
    second: tuple[str, str] | None = getattr(cls, "__second_tag__", None)
    return {} if second is None else {second[0]: second[1]}


def _unwrap(tp: Any) -> tuple[Any, list[Any]]:
    """Remove `Annotated`; return the type and its marks."""
    marks: list[Any] = []
    while get_origin(tp) is Annotated:
        tp, *more = get_args(tp)
        marks += more
    return tp, marks


def _all_marks(tp: Any) -> list[Any]:
    """Return the marks on a type and on the members of its union."""
    inner, marks = _unwrap(tp)
    if _is_union(inner) and OPEN not in marks:
        # UNSTABLE on a member concerns the member, not the field.
        parts = [mark for part in get_args(inner) for mark in _all_marks(part)]
        marks = marks + [mark for mark in parts if mark is not UNSTABLE]
    return marks


def _limits(marks: list[Any]) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for mark in marks:
        if isinstance(mark, Meta):
            for name in ("ge", "le", "min_length"):
                if (value := getattr(mark, name)) is not None:
                    limits[name] = value
    return limits


def _is_struct(tp: Any) -> bool:
    return isinstance(tp, type) and issubclass(tp, Struct)


def _is_union(tp: Any) -> bool:
    return get_origin(tp) in (Union, types.UnionType)
