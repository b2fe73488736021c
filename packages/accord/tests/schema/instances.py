"""Good, bad and lenient JSON for a shape: what each key accepts, rejects and tolerates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
)

Json = dict[str, Any]


@dataclass(frozen=True)
class Instance:
    """JSON with a verdict; `means` is the decoded meaning of a lenient instance."""

    verdict: str
    about: str
    value: Any
    means: Any = None


def instances(shape: Shape) -> Iterator[Instance]:
    """Yield the instances of all objects of a shape."""
    kinds = [kind for kind in shape if isinstance(kind, Object)]
    for number, kind in enumerate(kinds, 1):
        label = "-".join(value for _, value in sorted(kind.tags))
        if kind.rest:
            label = "-".join(filter(None, [label, "other"]))
        elif not label and len(kinds) > 1:
            label = f"form{number}"
        for found in _of_object(kind):
            about = "-".join(filter(None, [label, found.about]))
            yield Instance(found.verdict, about, found.value, found.means)
    yield from _of_tags(kinds)


def _of_tags(kinds: list[Object]) -> Iterator[Instance]:
    """Yield instances with a wrong tag of a union."""
    tagged = [kind for kind in kinds if kind.tags]
    if not tagged:
        return
    (tag, _), *_ = sorted(tagged[0].tags)
    base = minimal(tagged[0])
    yield Instance("bad", f"{tag}-missing", _without(base, tag))
    yield Instance("bad", f"{tag}-null", base | {tag: None})
    if not any(kind.rest for kind in kinds):
        yield Instance("bad", f"{tag}-unknown", base | {tag: "x-unknown"})
    yield Instance("bad", "not-an-object", [])


def _of_object(kind: Object) -> Iterator[Instance]:
    base = minimal(kind)
    yield Instance("good", "least", base)
    full = {key: _some(field) for key, field in kind.fields.items()} | _tags(kind)
    for key in sorted(kind.one_of)[1:]:
        del full[key]
    yield Instance("good", "all-and-more", full | {"xExtra": {"deep": [1, None]}})
    nulls = {key: None for key, field in kind.fields.items() if Null() in field.shape}
    if nulls.keys() - {"_meta"}:
        yield Instance("good", "nulls", base | nulls)
    unknown = {key: "x-new" for key, field in kind.fields.items() if _is_open_enum(field.shape)}
    if unknown:
        yield Instance("good", "new-values", base | unknown)
    rule = sorted(kind.one_of | kind.any_of)
    for key in rule[1:]:
        yield Instance(
            "good", f"by-{key}", _without(base, rule[0]) | {key: _some(kind.fields[key])}
        )
    if rule:
        yield Instance(
            "bad", "no-" + "-or-".join(rule), {k: base[k] for k in base if k not in rule}
        )
    if kind.one_of:
        both = {key: _some(kind.fields[key]) for key in rule}
        yield Instance("bad", "both-" + "-and-".join(rule), base | both)
    tags = dict(kind.tags).keys() | ({kind.rest.tag_field} if kind.rest else set())
    for number, (key, field) in enumerate(kind.fields.items()):
        if key in tags or (key == "_meta" and len(kind.fields) > 2):
            continue
        if field.required:
            yield Instance("bad", f"{key}-missing", _without(base, key))
        yield from _of_field(
            key, field, base, ruled=key in rule, raw=kind.rest is not None, null=number % 2 == 1
        )


def _of_field(
    key: str, field: Field, base: Json, *, ruled: bool, raw: bool, null: bool
) -> Iterator[Instance]:
    for number, kind in enumerate(field.shape[1:5], 2):
        if not isinstance(kind, Null):
            yield Instance("good", f"{key}-form{number}", base | {key: value_of(kind)})
    absent = base | {key: []} if field.required else _without(base, key)
    if field.on_null:
        empty: Any = {} if isinstance(field.shape[0], Mapping) else []
        yield Instance("lenient", f"{key}-null", base | {key: None}, base | {key: empty})
    for what, wrong in _wrong(field.shape, null=null and not field.on_null):
        if raw and field.on_error and not ruled:
            whole = base | {key: wrong}  # kept unchanged, including malformed parts
            yield Instance("lenient", f"{key}-{what}", whole, whole)
        elif field.on_error and not ruled:
            yield Instance("lenient", f"{key}-{what}", base | {key: wrong}, absent)
        else:
            yield Instance("bad", f"{key}-{what}", base | {key: wrong})
    for kind in field.shape[:1]:
        if isinstance(kind, List) and (wrong := _one_wrong(kind.item)) is not None:
            good = _value(kind.item)
            whole = base | {key: [good, wrong[1], good]}
            if kind.skip:
                yield Instance("lenient", f"{key}-item", whole, base | {key: [good, good]})
            elif field.on_error:
                yield Instance("lenient", f"{key}-item", whole, absent)
            else:
                yield Instance("bad", f"{key}-item", whole)


def _wrong(shape: Shape, *, null: bool) -> Iterator[tuple[str, Any]]:
    """Yield values that no alternative accepts, with a description of the error.

    A wrong type is either null or not: each on every other key is enough.
    """
    if any(isinstance(kind, Anything) for kind in shape):
        return
    one = _one_wrong(shape)
    if null and Null() not in shape:
        yield "null", None
    elif one is not None:
        yield one
    if len([kind for kind in shape if not isinstance(kind, Null)]) > 1:
        return
    match shape[0]:
        case Integer(low, high):
            if low is not None:
                yield "low", low - 1
            if high is not None:
                yield "high", high + 1
            yield "fraction", 1.5
        case Number(low, high):
            if low is not None:
                yield "low", low - 0.5
            if high is not None:
                yield "high", high + 0.5
        case Text(values=values, open=False) if values:
            yield "unknown", "x-unknown"
        case Text(min_length=least) if least:
            yield "short", "x" * (least - 1)
        case List(min_items=least) if least:
            yield "few", []


def _one_wrong(shape: Shape) -> tuple[str, Any] | None:
    """Return a value of a type that no alternative has."""
    kinds = {type(kind) for kind in shape}
    if Anything in kinds:
        return None
    for name, value, types in (
        ("text", "x-wrong", {Text}),
        ("number", 7.5, {Integer, Number}),
        ("boolean", True, {Boolean}),
        ("list", [], {List}),
    ):
        if not kinds & types:
            return name, value
    return None


def minimal(kind: Object) -> Json:
    """Return an object with its required fields only."""
    found = {key: _value(field.shape) for key, field in kind.fields.items() if field.required}
    for key in sorted(kind.one_of | kind.any_of)[:1]:
        found[key] = _value(kind.fields[key].shape)
    return found | _tags(kind)


def _tags(kind: Object) -> Json:
    tags: Json = dict(sorted(kind.tags))
    if kind.rest:
        tags[kind.rest.tag_field] = "x-new"
    return tags


def value_of(kind: Kind) -> Any:
    """Return the smallest value of a kind; a list has one item, so that the item is tested."""
    match kind:
        case Null():
            return None
        case Anything():
            return {"any": [1, "two", None]}
        case Boolean():
            return True
        case Integer(low=low):
            return max(low or 0, 1)
        case Number():
            return 0.5
        case Text(values=values):
            return min(values) if values else "text"
        case List(item=item):
            return [_value(item)]
        case Mapping(value=value):
            return {"key": _value(value)}
        case Object():
            return minimal(kind)


def _value(shape: Shape) -> Any:
    return value_of(shape[0])


def _some(field: Field) -> Any:
    return _value(field.shape)


def _without(base: Json, key: str) -> Json:
    return {name: value for name, value in base.items() if name != key}


def _is_open_enum(shape: Shape) -> bool:
    return any(isinstance(kind, Text) and kind.open for kind in shape)
