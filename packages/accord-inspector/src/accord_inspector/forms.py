"""The methods that can be sent by hand, with a schema of their params and params that work."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from accord.errors import DecodeError
from accord.schema import json_schema
from accord.text.lenient_json import is_array, is_object
from accord.v1 import METHODS as METHODS_V1
from accord.v2 import METHODS as METHODS_V2
from accord.wire.codec import converter
from accord.wire.protocol import Method
from accord_inspector.form_defaults import Suggestions, default_params
from accord_trace.records import Direction

Version: TypeAlias = Literal[1, 2]
Node: TypeAlias = dict[str, Any]

_METHODS: dict[int, tuple[Method, ...]] = {1: METHODS_V1, 2: METHODS_V2}
# Of the methods of the protocol and of proxies, the inspected agent may be the other side.
_DIRECTIONS: dict[str, tuple[Direction, ...]] = {
    "agent": ("to_agent",),
    "proxy": ("to_agent",),
    "client": ("to_client",),
    "protocol": ("to_agent", "to_client"),
}


class MethodEntry(Struct, frozen=True):
    """A method in the list of those that can be sent."""

    method: str
    direction: Direction
    kind: Literal["request", "notification"]
    unstable: bool
    summary: str
    gate: str = ""  # the capability that it needs


class Form(Struct):
    """What the page makes a form from: a JSON Schema with its definitions, and params."""

    version: int
    entry: MethodEntry
    type_name: str
    schema: Node
    params: Any
    suggestions: dict[str, list[str]]


class FormProblem(Struct):
    """What is wrong in params: a text and its place, as keys and indexes from the root."""

    text: str
    path: list[str | int]


@cache
def methods(version: Version) -> tuple[MethodEntry, ...]:
    """Return the methods of a version, unstable ones included, in both directions."""
    return tuple(
        _entry(method, direction)
        for method in _METHODS[version]
        for direction in _DIRECTIONS[method.to]
    )


def form_of(version: Version, name: str, direction: Direction, facts: Suggestions) -> Form:
    """Return the form of a method; raise `LookupError` if the version does not define it."""
    method = _find(version, name, direction)
    defs, root = _schema_of(version, method)
    schema: Node = {**defs[root], "$defs": dict(_reachable(root, defs))}
    params = default_params(root, defs, version, facts)
    entry = _entry(method, direction)
    return Form(version, entry, root, schema, params, facts.by_field())


def check_params(
    version: Version, name: str, direction: Direction, params: Any
) -> list[FormProblem]:
    """Return what an implementation that follows the types would reject in params.

    Raise `LookupError` if the version does not define the method.
    """
    method = _find(version, name, direction)
    try:
        converter(method.params)(params)
    except DecodeError as error:
        return [FormProblem(error.message, list(error.path))]
    return []


def _entry(method: Method, direction: Direction) -> MethodEntry:
    summary = inspect.getdoc(method.params) if isinstance(method.params, type) else None
    return MethodEntry(
        method.name,
        direction,
        "request" if method.is_request else "notification",
        method.unstable,
        summary or "",
        method.gate or "",
    )


def _find(version: Version, name: str, direction: Direction) -> Method:
    for method in _METHODS[version]:
        if method.name == name and direction in _DIRECTIONS[method.to]:
            return method
    raise LookupError(f"Version {version} does not define {name!r} in this direction")


@cache
def _definitions(version: Version) -> dict[str, Node]:
    return json_schema(f"v{version}", unstable=True)["$defs"]


def _schema_of(version: Version, method: Method) -> tuple[dict[str, Node], str]:
    """Return all definitions, and the name of that of a method's params."""
    defs = _definitions(version)
    for name, node in defs.items():
        if (
            node.get("x-method") == method.name
            and node.get("x-side") == method.to
            and not name.endswith("Response")
            and (method.is_request or not name.endswith("Request"))
            and (not method.is_request or not name.endswith("Notification"))
        ):
            return defs, name
    raise LookupError(f"There is no definition of the params of {method.name!r}")


def _reachable(root: str, defs: dict[str, Node]) -> Iterator[tuple[str, Node]]:
    seen: set[str] = set()
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name, defs[name]
            waiting += _references(defs[name])


def _references(node: Any) -> Iterator[str]:
    if is_object(node):
        reference = node.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix("#/$defs/")
        for value in node.values():
            yield from _references(value)
    elif is_array(node):
        for value in node:
            yield from _references(value)
