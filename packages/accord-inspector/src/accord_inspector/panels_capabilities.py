"""What both sides offered in `initialize`, out of all that the protocol defines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

from msgspec import Struct

from accord.schema import json_schema
from accord.text.lenient_json import is_array, is_object
from accord.v1 import METHODS as METHODS_V1
from accord.v2 import METHODS as METHODS_V2

Side = Literal["client", "agent"]

_METHODS = {"v1": METHODS_V1, "v2": METHODS_V2}
_DEPTH = 8
_WORD = re.compile(r"_([a-z])")


class CapabilityRow(Struct):
    """One capability: its path of keys, whether it is offered, and what it means.

    `known` is False for one that the version does not define; `value` is what was sent, None if
    nothing was.
    """

    path: str
    offered: bool
    known: bool
    meaning: str
    methods: list[str]
    value: Any = None


class SidePanel(Struct):
    """One side of `initialize`: who it is, the version it named, and its capabilities."""

    side: str
    version: Any
    info: Any
    auth_methods: list[Any]
    rows: list[CapabilityRow]


def capability_panel(side: Side, sent: dict[str, Any], version: int) -> SidePanel:
    """Return what a side has sent: the client its request's params, the agent its result.

    `version` is that of the connection, whose capabilities are listed.
    """
    name = "v2" if version >= 2 else "v1"
    offered = sent.get("capabilities", sent.get(f"{side}Capabilities"))
    found = offered if is_object(offered) else {}
    type_name = "AgentCapabilities" if side == "agent" else "ClientCapabilities"
    auth_methods = sent.get("authMethods")
    return SidePanel(
        side,
        sent.get("protocolVersion"),
        sent.get("info", sent.get(f"{side}Info")),
        auth_methods if is_array(auth_methods) else [],
        list(_rows(name, type_name, found, side, _DEPTH)),
    )


def _rows(
    version: str, type_name: str, offered: dict[str, Any], prefix: str, depth: int
) -> Iterator[CapabilityRow]:
    """Yield the rows of an object of capabilities; paths are without the side."""
    defs = _definitions(version)
    properties: dict[str, Any] = defs[type_name].get("properties", {})
    for key, node in properties.items():
        if key == "_meta":
            continue
        value = offered.get(key)
        path = f"{prefix}.{key}"
        inner = _type_of(node)
        described = defs.get(inner, {})
        meaning = described.get("description") or defs[type_name].get("description", "")
        is_group = set(described.get("properties", {})) - {"_meta"} != set()
        yield CapabilityRow(
            path.partition(".")[2],
            value is not None and value is not False,
            True,
            meaning,
            _methods(version).get(path, []),
            None if is_object(value) and is_group else value,
        )
        if is_group and depth:
            yield from _rows(version, inner, value if is_object(value) else {}, path, depth - 1)
    for key, value in offered.items():
        if key not in properties or (key == "_meta" and value):
            path = f"{prefix}.{key}".partition(".")[2]
            meaning = "Implementation-specific data" if key == "_meta" else ""
            is_offered = value is not None and value is not False
            yield CapabilityRow(path, is_offered, key == "_meta", meaning, [], value)


def _type_of(node: dict[str, Any]) -> str:
    """Return the name of the type of a field that may be null; "" if it has none."""
    for choice in (node, *node.get("anyOf", ())):
        reference = choice.get("$ref")
        if reference is not None:
            return str(reference).removeprefix("#/$defs/")
    return ""


@cache
def _definitions(version: str) -> dict[str, dict[str, Any]]:
    return json_schema(version, unstable=True)["$defs"]


@cache
def _methods(version: str) -> dict[str, list[str]]:
    """Return the methods that need a capability, by its path."""
    found: dict[str, list[str]] = {}
    for method in _METHODS[version]:
        if method.gate is not None:
            path = _WORD.sub(lambda match: match[1].upper(), method.gate)
            names = found.setdefault(path, [])
            if method.name not in names:
                names.append(method.name)
    return found
