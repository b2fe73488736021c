"""The JSON Schema of the wire types: `python -m accord.schema v1|v2 [--unstable]` prints it."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias, get_origin

from msgspec import Struct

from accord.v1 import METHODS as METHODS_V1
from accord.v1 import types as types_v1
from accord.v2 import METHODS as METHODS_V2
from accord.v2 import types as types_v2
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
    describe,
)
from accord.wire.protocol import Method

Node: TypeAlias = dict[str, Any]
_TYPES = {"v1": types_v1, "v2": types_v2}
_METHODS = {"v1": METHODS_V1, "v2": METHODS_V2}


def wire_types(version: str) -> dict[str, Any]:
    """Return the wire types of "v1" or "v2" by name."""
    types = _TYPES[version]
    by_name = {name: getattr(types, name) for name in sorted(types.__all__)}
    return {name: tp for name, tp in by_name.items() if _is_wire_type(tp)}


def json_schema(version: str, *, unstable: bool = False) -> Node:
    """Return the JSON Schema of the params and results of the methods of "v1" or "v2"."""
    return _Printer(version, unstable=unstable).print()


def _is_wire_type(tp: Any) -> bool:
    """Return True for wire classes and aliases, False for functions and constants."""
    if tp is Any or get_origin(tp) is not None:
        return True
    return isinstance(tp, type) and issubclass(tp, Struct | str | int)


class _Printer:
    def __init__(self, version: str, *, unstable: bool) -> None:
        self.version = version
        self.unstable = unstable
        self.types = wire_types(version)
        self.defs: dict[str, Node] = {}
        self.aliases: dict[Any, str] = {}
        for name, tp in self.types.items():
            shape = describe(tp, unstable=unstable)
            if not _is_struct(tp) and _deserves_a_name(shape):
                self.aliases.setdefault(_key(shape), name)

    def print(self) -> Node:
        table: tuple[Method, ...] = _METHODS[self.version]
        for method in table:
            if self.unstable or not method.unstable:
                params = self._message(method, method.params, "")
                if method.is_request:
                    self._message(
                        method, method.result, params.removesuffix("Request") + "Response"
                    )
        part = "stable and unstable" if self.unstable else "stable"
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"Agent Client Protocol {self.version}, {part}, as Accord reads and writes it",
            "$defs": dict(sorted(self.defs.items())),
        }

    def _message(self, method: Method, tp: Any, fallback: str) -> str:
        """Define the params or the result of a method under a name of its own."""
        names = [name for name, other in self.types.items() if other == tp]
        if _is_struct(tp):
            names.sort(key=lambda name: name != tp.__name__)
        free = [name for name in names if "x-method" not in self.defs.get(name, {})]
        name = fallback if tp is Any else free[0]
        node = self.of(describe(tp, unstable=self.unstable))
        if node != _ref(name):
            self.defs[name] = node
        self.defs[name] |= {"x-method": method.name, "x-side": method.to}
        return name

    def of(self, shape: Shape) -> Node:
        """Return the schema of a shape, or a reference to it if it has a name."""
        some = tuple(kind for kind in shape if not isinstance(kind, Null))
        if len(some) < len(shape) and some:
            node = self.of(some)
            if not node:
                return node
            if isinstance(node.get("type"), str) and "enum" not in node:
                return node | {"type": [node["type"], "null"]}
            return {"anyOf": [node, {"type": "null"}]}
        name = self.aliases.get(_key(shape)) if _deserves_a_name(shape) else None
        if name is None:
            return self._inline(shape)
        if name not in self.defs:
            self.defs[name] = self._inline(shape)
        return _ref(name)

    def _inline(self, shape: Shape) -> Node:
        nodes = [self._kind(kind) for kind in shape]
        return nodes[0] if len(nodes) == 1 else {"anyOf": nodes}

    def _kind(self, kind: Kind) -> Node:
        match kind:
            case Null():
                return {"type": "null"}
            case Anything():
                return {}
            case Boolean():
                return {"type": "boolean"}
            case Integer(low, high):
                return {"type": "integer"} | _given(minimum=low, maximum=high)
            case Number(low, high):
                return {"type": "number"} | _given(minimum=low, maximum=high)
            case Text():
                return _text(kind)
            case List(item, least, skip):
                node = {"type": "array", "items": self.of(item)} | _given(minItems=least or None)
                return node | ({"x-deserialize-skip-invalid-items": True} if skip else {})
            case Mapping(value):
                return {"type": "object", "additionalProperties": self.of(value) or True}
            case Object():
                return self._reference(kind)

    def _reference(self, kind: Object) -> Node:
        if kind.cls is None or kind.rest is not None:
            return self._object(kind)
        name = kind.cls.__name__
        if name not in self.defs:
            self.defs[name] = {}  # not complete yet
            summary = inspect.getdoc(kind.cls)
            self.defs[name] = _given(description=summary) | self._object(kind)
        return _ref(name)

    def _object(self, kind: Object) -> Node:
        ids = kind.one_of | kind.any_of
        properties = {
            key: self._field(field) for key, field in kind.fields.items() if key not in ids
        }
        required = [key for key, field in kind.fields.items() if field.required]
        node: Node = {"type": "object", "properties": properties}
        if required:
            node["required"] = required
        if ids:
            # The types of ids matter only where an id is required.
            node["oneOf" if kind.one_of else "anyOf"] = [
                {"properties": {key: self.of(kind.fields[key].shape)}, "required": [key]}
                for key in sorted(ids)
            ]
        if kind.rest is not None:
            known = {"enum": sorted(kind.rest.known)}
            node["not"] = {"properties": {kind.rest.tag_field: known}}
        return node

    def _field(self, field: Field) -> Node:
        node = dict(self.of(field.shape))
        if field.default is not None:
            node["default"] = field.default
        if field.on_error:
            node["x-deserialize-default-on-error"] = True
        if field.on_null:
            node["x-deserialize-default-on-null"] = True
        return node


def _text(kind: Text) -> Node:
    if kind.values is None:
        return {"type": "string"} | _given(minLength=kind.min_length or None)
    values: Node = {"type": "string", "enum": sorted(kind.values)}
    return {"anyOf": [values, {"type": "string"}]} if kind.open else values


def _given(**keywords: Any) -> Node:
    return {name: value for name, value in keywords.items() if value is not None}


def _ref(name: str) -> Node:
    return {"$ref": f"#/$defs/{name}"}


def _is_struct(tp: Any) -> bool:
    return isinstance(tp, type) and issubclass(tp, Struct)


def _deserves_a_name(shape: Shape) -> bool:
    """Return True if an alias is identified by its values, as unions and enums are."""
    if len(shape) > 1:
        return True
    return any(isinstance(kind, Text) and len(kind.values or ()) > 1 for kind in shape)


def _key(shape: Shape) -> frozenset[Any]:
    return frozenset(_kind_key(kind) for kind in shape)


def _kind_key(kind: Kind) -> Any:
    match kind:
        case Object():
            return (kind.cls, kind.tags, kind.rest)
        case List(item, least, skip):
            return ("list", _key(item), least, skip)
        case Mapping(value):
            return ("mapping", _key(value))
        case _:
            return kind


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the schema that the arguments select."""
    parser = argparse.ArgumentParser(
        prog="python -m accord.schema",
        description="Print the JSON Schema (2020-12) of Accord's wire types.",
    )
    parser.add_argument("version", choices=("v1", "v2"), help="the version of the protocol")
    parser.add_argument("--unstable", action="store_true", help="with the unstable parts")
    options = parser.parse_args(arguments)
    schema = json_schema(options.version, unstable=options.unstable)
    try:
        print(json.dumps(schema, indent=2, ensure_ascii=False), flush=True)
    except BrokenPipeError:
        # The reader has closed the pipe: `… | head`. Python would report an error when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
