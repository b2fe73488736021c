"""Edits a message without losing the parts that the wire types do not have.

A proxy forwards raw JSON. To change a message, it decodes it, edits the typed value, and applies
the difference to the raw value: unknown fields, skipped items and invalid values stay.
"""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord.wire.codec import to_builtins

__all__ = ("overlay",)

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
