"""The wire types as shapes: all public types of `accord.v1` and `accord.v2`, by name."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, get_args

from msgspec import Struct

from accord.schema import wire_types
from accord.wire.describe import Anything, Null, Object, describe
from accord.wire.protocol import Method


@cache
def public(version: str) -> dict[str, Any]:
    """Return the public wire types of one version by name, classes and aliases.

    Next edit suggestions are in no schema and have their own tests.
    """
    return wire_types(version)


def is_class(tp: Any) -> bool:
    """Return whether a public name is a class, not an alias."""
    return isinstance(tp, type) and issubclass(tp, Struct)


def is_unstable(tp: Any) -> bool:
    """Return whether a class belongs to the unstable schema as a whole."""
    return getattr(tp, "__unstable__", False)


def methods(version: str) -> tuple[Method, ...]:
    """Return the table of methods."""
    table: tuple[Method, ...] = importlib.import_module(f"accord.{version}.methods").METHODS
    return table


def variant_gates(version: str) -> dict[type, str]:
    """Return the capabilities for variants of a message."""
    table: dict[type, str] = importlib.import_module(f"accord.{version}.methods").VARIANT_GATES
    return table


def class_of(tp: Any) -> Any:
    """Return the class of an optional type."""
    return next((part for part in get_args(tp) if part is not type(None)), tp)


def three_state(version: str) -> set[str]:
    """Return the fields that distinguish absent, null and a value."""
    found: set[str] = set()
    for name, tp in public(version).items():
        if not is_class(tp):
            continue
        (shape,) = describe(tp)
        assert isinstance(shape, Object)
        for key, field in shape.fields.items():
            if field.three_state and any(isinstance(kind, Null | Anything) for kind in field.shape):
                found.add(f"{name}.{key}")
    return found


def fields_beside(whole: Object, part: Object) -> Object:
    """Return an object with only those fields that a part of it lacks."""
    fields = {key: field for key, field in whole.fields.items() if key not in part.fields}
    return Object(whole.name, fields)
