"""Gates: the capability that a method or a variant needs (R-INIT-29).

A gate is a path of attributes that starts with the side that has it: `client.fs.read_text_file`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec.structs import fields

from accord.wire.protocol import Method


def is_open(gate: str, capabilities: Mapping[str, Any]) -> bool:
    """Return True if a side has the capability; absent, null and false values are closed.

    `capabilities` maps `agent` and `client` to what each side has sent (R-INIT-16, R-INIT-26).
    """
    side, *path = gate.split(".")
    value: Any = capabilities[side]
    for name in path:
        value = getattr(value, name, None)
    return value is True or hasattr(value, "__struct_fields__")


def closed_methods(methods: Iterable[Method], capabilities: Mapping[str, Any]) -> dict[str, str]:
    """Return the methods that cannot be used on this connection, each with its gate."""
    return {
        method.name: method.gate
        for method in methods
        if method.gate is not None and not is_open(method.gate, capabilities)
    }


def closed_variants(gates: Mapping[type, str], capabilities: Mapping[str, Any]) -> dict[type, str]:
    """Return the variants that cannot be sent on this connection, each with its gate."""
    return {variant: gate for variant, gate in gates.items() if not is_open(gate, capabilities)}


def opening(
    capabilities: type[Any], side: str, gates: Collection[str], convert: Callable[[Any, Any], Any]
) -> Any:
    """Return capabilities that open only these gates."""
    if not gates:
        return capabilities()
    offered: dict[str, Any] = {}
    for gate in gates:
        owner, *path = gate.split(".")
        if owner != side:
            continue
        place, cls = offered, capabilities
        for name in path:
            wire, inner = _field(cls, name)
            if inner is None:
                place[wire] = True
            else:
                place, cls = place.setdefault(wire, dict(_minimal(inner))), inner
    return convert(offered, capabilities)


def _field(cls: type[Any], name: str) -> tuple[str, type[Any] | None]:
    """Return a field's name on the wire and the class of its markers, or None for a boolean."""
    index = cls.__struct_fields__.index(name)
    return cls.__struct_encode_fields__[index], _struct_in(_hints(cls)[name])


@cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    """Return the types of the fields; cached, because each gate needs them."""
    return get_type_hints(cls)


@cache
def _minimal(cls: type[Any]) -> dict[str, Any]:
    """Return a marker with only its required fields, each with its first possible value."""
    hints = _hints(cls)
    return {
        field.encode_name: get_args(hints[field.name])[0]
        for field in fields(cls)
        if field.required and get_origin(hints[field.name]) is Literal
    }


def _struct_in(tp: Any) -> type[Any] | None:
    if hasattr(tp, "__struct_fields__"):
        return tp
    found = (_struct_in(part) for part in get_args(tp))
    return next((inner for inner in found if inner is not None), None)
