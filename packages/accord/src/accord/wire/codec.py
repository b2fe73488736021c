"""Converts between JSON text and wire types: natively first, tolerantly if that fails.

msgspec decodes nearly every real message in one call in C. It cannot express open unions, leniency
and unions by shape. If it fails, the converter that is compiled here from the same annotations
either returns the value or reports the exact place of the error. `overlay` edits a message without
losing the parts that the types do not have.
"""

from __future__ import annotations

import contextlib
import math
import types
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Raw, Struct, UnsetType

from accord.errors import DecodeError
from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.wire.base import (
    DEFAULT_ON_ERROR,
    DEFAULT_ON_NULL,
    OPEN,
    SKIP_INVALID,
    Members,
    Other,
    Unknown,
    keeps_more,
    with_more,
)

__all__ = (
    "convert",
    "converter",
    "decode",
    "decoder",
    "encode",
    "encode_into",
    "overlay",
    "struct_converter",
    "to_builtins",
)

T = TypeVar("T")
Convert = Callable[[Any], Any]


def decode(text: bytes | Raw, tp: type[T]) -> T:
    """Return the value of a JSON text as `tp`; raise `DecodeError`."""
    return decoder(tp)(text)


@cache
def decoder(tp: Any) -> Callable[[bytes | Raw], Any]:
    """Return a function that decodes JSON text as `tp`; it is compiled once."""
    native = msgspec.json.Decoder(tp).decode

    def decode(text: bytes | Raw) -> Any:
        try:
            return native(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        text, tolerant = bytes(text), converter(tp)
        try:
            value, has_large = lenient_json.loads_marking(text)
        except lenient_json.NotJson as exc:
            raise DecodeError(f"Expected JSON: {exc}") from None
        converted = tolerant(value)
        # Where any JSON is allowed, a number out of range is kept as a string.
        return tolerant(lenient_json.loads(text)) if has_large else converted

    return decode


def convert(value: Any, tp: type[T]) -> T:
    """Return builtin values as `tp`, by the tolerant converter; raise `DecodeError`."""
    return converter(tp)(value)


def _raw(value: Any) -> Any:
    if type(value) is Unknown:
        return value.raw
    raise TypeError(f"{type(value).__name__} is not a wire type")


_encoder = msgspec.json.Encoder(enc_hook=_raw)
_encode, _encode_into = _encoder.encode, _encoder.encode_into


def encode(value: Any) -> bytes:
    """Return the JSON text of a wire value or of builtin values."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return lenient_json.dumps(to_builtins(value))


def encode_into(value: Any, text: bytearray) -> None:
    """Append the JSON text of a value without an intermediate copy."""
    size = len(text)
    try:
        _encode_into(value, text, size)
    except UnicodeEncodeError:
        text[size:] = lenient_json.dumps(to_builtins(value))


def to_builtins(value: Any) -> Any:
    """Return a wire value as dicts, lists and scalars, as it would be encoded."""
    return msgspec.to_builtins(value, enc_hook=_raw)


# The tolerant converter.


@cache
def converter(tp: Any) -> Convert:
    """Return a function that converts builtin values to `tp`; it is compiled once."""
    return _compile(tp)


def _compile(tp: Any) -> Convert:
    if _is_any_string(tp):
        return _string
    tp, marks = _unwrap(tp)
    if tp is Any:
        return _anything
    for mark in marks:
        if isinstance(mark, Members):
            return _union(_flat(mark.union, marks), marks)
    if _is_struct(tp):
        if OPEN in marks:
            return _union([tp], marks)
        return _later(tp)
    origin = get_origin(tp)
    if origin in (Union, types.UnionType):
        return _union(_flat(tp, marks), marks)
    if SKIP_INVALID not in marks and not _needs_walk(tp):
        return _leaf(Annotated[(tp, *marks)] if marks else tp)
    if origin is list:
        (item,) = get_args(tp)
        return _list(_compile(item), skip=SKIP_INVALID in marks, bounds=_bounds(marks))
    if origin is dict:
        _, item = get_args(tp)
        return _mapping(_compile(item))
    raise TypeError(f"no converter for {tp!r}")


def _unwrap(tp: Any) -> tuple[Any, list[Any]]:
    """Remove `Annotated`; return the type and its marks."""
    marks: list[Any] = []
    while get_origin(tp) is Annotated:
        tp, *more = get_args(tp)
        marks += more
    return tp, marks


def _flat(tp: Any, marks: list[Any]) -> list[Any]:
    """Return the members of a union, including those of nested unions.

    A nested open union makes the whole union open: its mark is added to `marks`.
    """
    inner, own = _unwrap(tp)
    marks += [mark for mark in own if mark is OPEN or isinstance(mark, Other)]
    for mark in own:
        if isinstance(mark, Members):
            return _flat(mark.union, marks)
    if get_origin(inner) in (Union, types.UnionType):
        return [member for part in get_args(inner) for member in _flat(part, marks)]
    # Marks on a member matter if they constrain or skip; `UNSTABLE` does not.
    return [inner if _is_struct(inner) else tp]


def _bounds(marks: list[Any]) -> tuple[int, float]:
    """Return the minimum and the maximum length that the marks allow."""
    metas = [mark for mark in marks if isinstance(mark, Meta)]
    least = max((meta.min_length or 0 for meta in metas), default=0)
    lengths = [meta.max_length for meta in metas if meta.max_length is not None]
    return least, min(lengths, default=math.inf)


def _bounded(marks: list[Any]) -> bool:
    """Return True if the marks exclude some strings."""
    patterns = [mark.pattern for mark in marks if isinstance(mark, Meta)]
    return any(patterns) or _bounds(marks) != (0, math.inf)


def _is_any_string(tp: Any) -> bool:
    inner, marks = _unwrap(tp)
    return inner is str and not _bounded(marks)


def _is_struct(tp: Any) -> bool:
    return isinstance(tp, type) and issubclass(tp, Struct)


def _needs_walk(tp: Any) -> bool:
    tp, marks = _unwrap(tp)
    if _is_struct(tp) or SKIP_INVALID in marks or OPEN in marks:
        return True
    if get_origin(tp) in (list, dict) and get_args(tp)[-1] is not Any:
        return True  # msgspec would report the inner place in its own format
    return any(_needs_walk(part) for part in get_args(tp))


def _mentions(tp: Any, mark: Any) -> bool:
    """Return True if a field's type, or a member of its union, has a mark."""
    inner, marks = _unwrap(tp)
    if mark in marks:
        return True
    if get_origin(inner) in (Union, types.UnionType):
        return any(_mentions(part, mark) for part in get_args(inner))
    return False


_NAMES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "str",
    bool: "bool",
    int: "int",
    float: "float",
    type(None): "null",
    lenient_json.NumberText: "number out of range",
}


def _wrong(expected: str, value: Any) -> DecodeError:
    kind: type = type(value)  # pyright: ignore[reportUnknownVariableType]
    got = _NAMES.get(kind, kind.__name__)
    return DecodeError(f"Expected `{expected}`, got `{got}`")


def _anything(value: Any) -> Any:
    return value


def _string(value: Any) -> Any:
    if type(value) is str:
        return value
    raise _wrong("str", value)


def _leaf(tp: Any) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is lenient_json.NumberText:
            raise DecodeError("Number out of range")
        try:
            return msgspec.convert(value, tp)
        except msgspec.ValidationError as exc:
            if type(value) is float and value.is_integer() and -(2**63) <= value < 2**64:
                # JSON has one type of numbers: 1.0 is an integer, too.
                with contextlib.suppress(msgspec.ValidationError):
                    return msgspec.convert(int(value), tp)
            raise DecodeError(str(exc)) from None
        except UnicodeEncodeError:
            # msgspec cannot inspect a lone surrogate in place of another value.
            raise DecodeError("Invalid value with a lone surrogate") from None

    return convert


def _later(cls: type[Struct]) -> Convert:
    """Compile a class on first use, which saves time at import and allows recursion."""

    def convert(value: Any) -> Any:
        return struct_converter(cls)(value)

    return convert


def _list(item: Convert, *, skip: bool, bounds: tuple[int, float]) -> Convert:
    least, greatest = bounds

    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise _wrong("array", value)
        items: list[Any] = []
        for index, entry in enumerate(value):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            try:
                items.append(item(entry))
            except DecodeError as exc:
                if not skip:
                    raise exc.within(index) from None
        if len(items) < least:
            raise DecodeError(f"Expected `array` of length >= {least}")
        if len(items) > greatest:
            raise DecodeError(f"Expected `array` of length <= {greatest}")
        return items

    return convert


def _mapping(item: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _wrong("object", value)
        entries: dict[str, Any] = {}
        for key, entry in value.items():  # pyright: ignore[reportUnknownVariableType]
            try:
                entries[key] = item(entry)
            except DecodeError as exc:
                raise exc.within(key) from None  # pyright: ignore[reportUnknownArgumentType]
        return entries

    return convert


def _union(members: list[Any], marks: list[Any]) -> Convert:
    structs = [m for m in members if _is_struct(m)]
    others = [
        str if _is_any_string(m) else m
        for m in members
        if not _is_struct(m) and m not in (type(None), UnsetType)
    ]
    choices: list[Convert] = []
    if structs:
        other = next((m.shape for m in marks if isinstance(m, Other)), None)
        choices.append(_structs(structs, is_open=OPEN in marks, other=other))
    plain = [m for m in others if not _needs_walk(m) and m is not Any]
    if plain:
        choices.append(_string if plain == [str] else _leaf(Union[tuple(plain)]))  # noqa: UP007  # built at run time
    choices += [_compile(m) for m in others if m not in plain]
    convert = choices[0] if len(choices) == 1 else _first_fit(choices)
    if type(None) not in members:
        return convert

    def optional(value: Any) -> Any:
        return None if value is None else convert(value)

    return optional


def _first_fit(choices: list[Convert]) -> Convert:
    """Try each; if none fits, raise the error with the deepest path."""

    def convert(value: Any) -> Any:
        worst: DecodeError | None = None
        for choice in choices:
            try:
                return choice(value)
            except DecodeError as exc:
                if worst is None or len(exc.path) > len(worst.path):
                    worst = exc
        raise worst or _wrong("nothing", value)

    return convert


def _structs(members: list[type[Struct]], *, is_open: bool, other: Any) -> Convert:
    tagged: dict[str, dict[Any, list[type[Struct]]]] = {}
    untagged: list[type[Struct]] = []
    for member in members:
        config = member.__struct_config__
        if config.tag_field is None:
            untagged.append(member)
        else:
            tagged.setdefault(config.tag_field, {}).setdefault(config.tag, []).append(member)
    fallback = _first_fit([_later(m) for m in untagged]) if untagged else None
    if not tagged:
        assert fallback is not None
        return fallback
    ((tag_field, by_tag),) = tagged.items()
    known: dict[Any, Convert] = {
        tag: _later(group[0]) if len(group) == 1 else _by_second_tag(group, is_open=is_open)
        for tag, group in by_tag.items()
    }
    check = converter(other) if other is not None else _anything

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _wrong("object", value)
        tag: Any = value.get(tag_field)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if type(tag) is str and tag in known:  # pyright: ignore[reportUnknownArgumentType]
            return known[tag](value)
        if is_open and type(tag) is str:  # pyright: ignore[reportUnknownArgumentType]
            check(value)
            return Unknown(tag, value)  # pyright: ignore[reportUnknownArgumentType]
        if fallback is not None:
            return fallback(value)
        if tag_field not in value:
            raise DecodeError(f"Object missing required field `{tag_field}`")
        raise DecodeError(f"Invalid value {tag!r}", (tag_field,))

    return convert


def _by_second_tag(members: list[type[Struct]], *, is_open: bool) -> Convert:
    """Distinguish members with the same tag by the second tag that each class names."""
    ((key, table),) = _second_tags(members).items()

    def convert(value: Any) -> Any:
        tag = value.get(key)
        if type(tag) is str and tag in table:
            return table[tag](value)
        if is_open and type(tag) is str:
            return Unknown(tag, value)
        if key not in value:
            raise DecodeError(f"Object missing required field `{key}`")
        raise DecodeError(f"Invalid value {tag!r}", (key,))

    return convert


def _second_tags(members: list[type[Struct]]) -> dict[str, dict[str, Convert]]:
    table: dict[str, dict[str, Convert]] = {}
    for member in members:
        second: tuple[str, str] = getattr(member, "__second_tag__")  # noqa: B009  # part of sharing a tag
        key, tag = second
        table.setdefault(key, {})[tag] = _later(member)
    return table


class _Field:
    """Converts one field of a struct."""

    __slots__ = ("convert", "lenient", "name", "null_is_empty", "required", "wire")

    empty: ClassVar[tuple[type, ...]] = (list, dict)

    def __init__(self, info: msgspec.structs.FieldInfo, tp: Any) -> None:
        self.wire = info.encode_name
        self.name = info.name
        self.required = info.required
        self.lenient = _mentions(tp, DEFAULT_ON_ERROR)
        self.null_is_empty = _empty_of(tp) if _mentions(tp, DEFAULT_ON_NULL) else None
        self.convert = _compile(tp)

    def read(self, value: Any, into: dict[str, Any]) -> None:
        if value is None and self.null_is_empty is not None:
            into[self.name] = self.null_is_empty()
            return
        try:
            into[self.name] = self.convert(value)
        except DecodeError as exc:
            if not self.lenient:
                raise exc.within(self.wire) from None
            if self.required:
                into[self.name] = []  # rule 2: only arrays are both required and lenient


def _empty_of(tp: Any) -> Callable[[], Any]:
    inner, _ = _unwrap(tp)
    origin = get_origin(inner)
    assert origin in _Field.empty, f"default-on-null is for lists and maps, not {tp!r}"
    return origin


@cache
def struct_converter(cls: type[Struct]) -> Convert:
    hints = get_type_hints(cls, include_extras=True)
    plan = [_Field(info, hints[info.name]) for info in msgspec.structs.fields(cls)]
    tag_field, tag = cls.__struct_config__.tag_field, cls.__struct_config__.tag
    known = {field.wire for field in plan} | {tag_field} if keeps_more(cls) else None

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _wrong("object", value)
        if tag_field is not None and value.get(tag_field, tag) != tag:  # pyright: ignore[reportUnknownMemberType]
            raise DecodeError(f"Invalid value {value[tag_field]!r}", (tag_field,))
        fields: dict[str, Any] = {}
        for field in plan:
            if field.wire in value:
                field.read(value[field.wire], fields)
            elif field.required:
                raise DecodeError(f"Object missing required field `{field.wire}`")
        if known is not None and (more := value.keys() - known):  # pyright: ignore[reportUnknownVariableType]
            names = [key for key in value if key in more]  # pyright: ignore[reportUnknownVariableType]
            return with_more(cls, fields, {key: value[key] for key in names})  # pyright: ignore[reportUnknownVariableType]
        try:
            return cls(**fields)
        except ValueError as exc:  # from __post_init__: a rule across fields
            raise DecodeError(str(exc)) from None

    return convert


# A proxy forwards raw JSON. To change a message, it decodes it, edits the typed value, and applies
# the difference to the raw value: unknown fields, skipped items and invalid values stay.

_ABSENT = object()


def overlay(raw: Any, before: Any, after: Any) -> Any:
    """Return builtin `raw` with the difference between its wire values `before` and `after`."""
    return _overlay(raw, to_builtins(before), to_builtins(after))


def _overlay(raw: Any, before: Any, after: Any) -> Any:
    if _same(before, after):
        return raw
    if is_object(raw) and is_object(before) and is_object(after):
        return _objects(raw, before, after)
    if is_array(raw) and is_array(before) and is_array(after):
        return _arrays(raw, before, after)
    return after


def _same(one: Any, other: Any) -> bool:
    # 1, 1.0 and True are equal in Python and not in JSON.
    if type(one) is not type(other):
        return False
    if is_object(one):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if is_array(one):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _objects(raw: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in raw.items() if key in after or key not in before}
    for key, value in after.items():
        was = before.get(key, _ABSENT)
        if was is _ABSENT:
            result[key] = value
        elif key in raw:
            result[key] = _overlay(raw[key], was, value)
        elif not _same(was, value):
            result[key] = value  # a changed default that was omitted
    return result


def _arrays(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    places = _places(raw, before)
    if places is None:
        return after
    if len(before) == len(after):
        result = list(raw)
        for place, was, value in zip(places, before, after, strict=True):
            result[place] = _overlay(raw[place], was, value)
        return result
    # Items were added or removed: remaining items keep their raw form, skipped ones are dropped.
    left = list(zip(before, places, strict=True))
    result: list[Any] = []
    for value in after:
        found = next((pair for pair in left if _same(pair[0], value)), None)
        if found is None:
            result.append(value)
        else:
            left.remove(found)
            result.append(raw[found[1]])
    return result


def _places(raw: list[Any], typed: list[Any]) -> list[int] | None:
    """Return the index of the raw item of each typed one: decoding may have skipped some."""
    if len(raw) == len(typed):
        return list(range(len(raw)))
    places: list[int] = []
    at = 0
    for item in typed:
        while at < len(raw) and not _covers(raw[at], item):
            at += 1
        if at == len(raw):
            return None
        places.append(at)
        at += 1
    return places


def _covers(raw: Any, typed: Any) -> bool:
    """Return True if `typed` can be the decoded form of `raw`."""
    if is_object(raw) and is_object(typed):
        return all(key in raw and _covers(raw[key], value) for key, value in typed.items())
    if is_array(raw) and is_array(typed):
        return len(raw) >= len(typed)
    return _same(raw, typed)
