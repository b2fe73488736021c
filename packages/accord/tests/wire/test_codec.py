"""The two decoders agree: msgspec's own and the tolerant converter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.errors import DecodeError
from accord.schema import wire_types
from accord.v1.methods import METHODS as V1
from accord.v2.methods import METHODS as V2
from accord.wire.base import KeepsMore
from accord.wire.codec import converter, decode, encode
from accord.wire.describe import (
    Anything,
    Boolean,
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

Path = tuple[str | int, ...]

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**31, 2**32, 2**63, 2**64, -(2**63) - 1, 10**30])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["\ud800", "x\udfff"])  # with lone surrogates, which msgspec rejects
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "id", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def values(shape: Shape) -> st.SearchStrategy[Any]:
    """Return a strategy for JSON values that a shape accepts."""
    return st.one_of([_values(kind) for kind in shape])


def _values(kind: Kind) -> st.SearchStrategy[Any]:
    match kind:
        case Null():
            return st.none()
        case Anything():
            return JSON
        case Boolean():
            return st.booleans()
        case Integer(low, high):
            numbers = st.integers(low, high)
            return numbers | numbers.filter(lambda number: abs(number) < 2**53).map(float)
        case Number(low, high):
            return st.floats(low, high, allow_nan=False, allow_infinity=False)
        case Text(values=known, open=is_open):
            text = st.text(min_size=kind.min_length, max_size=8)
            if known is None:
                return text
            return st.sampled_from(sorted(known)) | (text if is_open else st.nothing())
        case List(item, least):
            return st.lists(st.deferred(lambda: values(item)), min_size=least, max_size=2)
        case Mapping(value):
            return st.dictionaries(st.text(max_size=4), values(value), max_size=2)
        case Object():
            return _objects(kind)


def _objects(kind: Object) -> st.SearchStrategy[dict[str, Any]]:
    ids = sorted(kind.one_of | kind.any_of)
    must = {k: values(f.shape) for k, f in kind.fields.items() if f.required}
    may = {k: values(f.shape) for k, f in kind.fields.items() if not f.required and k not in ids}
    if kind.rest is not None:
        known = kind.rest.known
        must[kind.rest.tag_field] = st.text(max_size=8).filter(lambda tag: tag not in known)
    objects = st.fixed_dictionaries(must, optional=may)
    if not ids:
        return objects
    by_id = [st.fixed_dictionaries({key: values(kind.fields[key].shape)}) for key in ids]
    return st.builds(lambda one, other: one | other, objects, st.one_of(by_id))


def _messages() -> list[Any]:
    """Return the params and results of all methods of both versions."""
    found: list[Any] = []
    for method in (*V1, *V2):
        found += [tp for tp in (method.params, method.result) if tp is not None and tp is not Any]
    return found


def _unions() -> list[Any]:
    """Return the public unions and enums."""
    types = [*wire_types("v1").values(), *wire_types("v2").values()]
    return [tp for tp in types if not isinstance(tp, type)]


def typed_values(types: Iterable[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    """Return a strategy of types, each with a JSON value that it reads."""

    def describe_all() -> st.SearchStrategy[tuple[Any, Any]]:
        pairs = [(tp, values(describe(tp))) for tp in types]
        return st.sampled_from(pairs).flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1]))

    return st.deferred(describe_all)  # when a test runs, not when tests are collected


TYPED_JSON = typed_values([*_messages(), *_unions()])


@dataclass(frozen=True)
class Refused:
    """The error of a decoder: what is wrong, and where."""

    reason: str


def outcome(read: Callable[[], Any]) -> Any:
    """Return the decoded value or the error."""
    try:
        return read()
    except DecodeError as exc:
        return Refused(str(exc))


def check(tp: Any, value: Any) -> Any:
    """Return the result of the converter, after comparing it with both other decoders."""
    text = json.dumps(value).encode()
    tolerant = outcome(lambda: converter(tp)(value))
    whole = outcome(lambda: decode(text, tp))
    assert whole == tolerant
    try:
        native = msgspec.json.Decoder(tp).decode(text)
    except msgspec.DecodeError:
        return tolerant
    # Equal values of different types, such as 1 and 1.0, are encoded differently.
    assert native == tolerant
    assert encode(native) == encode(tolerant)
    return tolerant


@settings(max_examples=150)
@given(TYPED_JSON)
def test_both_decoders_agree_on_valid_values(case: tuple[Any, Any]) -> None:
    tp, value = case
    read = check(tp, value)
    if isinstance(read, Refused):  # a constraint that is not in a shape
        return
    assert check(tp, json.loads(encode(read))) == read


@settings(max_examples=200)
@given(TYPED_JSON, st.data())
def test_both_decoders_agree_on_changed_values(case: tuple[Any, Any], data: st.DataObject) -> None:
    tp, value = case
    path = data.draw(st.sampled_from(list(_paths(value))))
    check(tp, _put(value, path, data.draw(JSON)))


@settings(max_examples=80)
@given(TYPED_JSON, st.data())
def test_both_decoders_agree_on_missing_keys(case: tuple[Any, Any], data: st.DataObject) -> None:
    tp, value = case
    paths = [path for path in _paths(value) if path]
    if paths:
        check(tp, _drop(value, data.draw(st.sampled_from(paths))))


@settings(max_examples=80)
@given(TYPED_JSON, JSON)
def test_unknown_keys_change_nothing(case: tuple[Any, Any], extra: Any) -> None:
    tp, value = case
    if isinstance(value, dict) and isinstance(plain := check(tp, value), msgspec.Struct):
        found = check(tp, value | {"xExtra": extra})
        if isinstance(plain, KeepsMore):
            assert found.more == plain.more | {"xExtra": extra}
        else:
            assert found == plain


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path to every value inside a JSON value, itself included."""
    yield path
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, entry in entries:
        yield from _paths(entry, (*path, key))


def _put(value: Any, path: Path, new: Any) -> Any:
    """Return a copy with another value at a path."""
    if not path:
        return new
    changed = value.copy()
    changed[path[0]] = _put(value[path[0]], path[1:], new)
    return changed


def _drop(value: Any, path: Path) -> Any:
    """Return a copy without the value at a path."""
    changed = value.copy()
    if len(path) == 1:
        del changed[path[0]]
    else:
        changed[path[0]] = _drop(value[path[0]], path[1:])
    return changed
