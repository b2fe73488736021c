"""The keys of the protocol, in all types of both versions, stable or unstable."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from accord.wire.describe import List, Mapping, Object, Shape, describe
from accord_conformance.traffic.connection_state import methods


@cache
def protocol_keys() -> frozenset[str]:
    """Return the keys of all types of the protocol."""
    known: set[str] = set()
    seen: set[Object] = set()
    for method in (*methods(1), *methods(2)):
        for part in (method.params, method.result):
            known.update(_keys(_shape(part), seen))
    return frozenset(known)


def _shape(part: Any) -> Shape:
    return () if part is None else describe(part)


def _keys(shape: Shape, seen: set[Object]) -> Iterator[str]:
    for kind in shape:
        match kind:
            case Object() if kind not in seen:
                seen.add(kind)
                yield from kind.fields
                for field in kind.fields.values():
                    yield from _keys(field.shape, seen)
            case List(item) | Mapping(item):
                yield from _keys(item, seen)
            case _:
                pass
