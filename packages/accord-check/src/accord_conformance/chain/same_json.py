"""Compares JSON texts: what a component forwards must be equal to what it received."""

from __future__ import annotations

import json
from typing import Any

from msgspec import UNSET

from accord.text.lenient_json import is_array, is_object
from accord_conformance.harness.raw_hop import Field


def same_value(one: Field | bytes | None, other: Field | bytes | None) -> bool:
    """Whether two texts have the same value; absent and null are equal.

    Numbers are compared as most programs read them: as 64-bit floating point.
    """
    return _same(_value(one), _value(other))


def same_bytes(one: Field | bytes | None, other: Field | bytes | None) -> bool:
    """Whether two texts are equal; absent and null are, too."""
    return text_of(one) == text_of(other)


def text_of(field: Field | bytes | None) -> bytes:
    """Return a text; `null` if it is absent."""
    return b"null" if field is None or field is UNSET else bytes(field)


def _value(field: Field | bytes | None) -> Any:
    return json.loads(text_of(field), parse_int=float)


def _same(one: Any, other: Any) -> bool:
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if is_array(one) and is_array(other):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other
