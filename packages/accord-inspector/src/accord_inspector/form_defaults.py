"""Params that a method accepts, made from its schema and from what is known of the agent."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field

from accord.text.lenient_json import is_array

Node: TypeAlias = dict[str, Any]

_DEPTH = 12  # of nested values
_TEXTS: dict[str, str] = {
    "text": "Hello",
    "title": "A title",
    "name": "example",
    "command": "echo",
    "uri": "file:///example.txt",
    "url": "https://example.com",
    "mimeType": "text/plain",
    "message": "A message",
    "content": "Hello",
    "protocol": "anthropic",
    "version": "1.0.0",
    "method": "tools/list",
    "data": "",
}


class Suggestions(Struct):
    """Values that the agent knows, the newest first, and the directory of its sessions."""

    sessions: list[str] = field(default_factory=lambda: list[str]())
    cwd: str = "/"
    fields: dict[str, list[str]] = field(default_factory=lambda: dict[str, list[str]]())

    def by_field(self) -> dict[str, list[str]]:
        """Return the values for each name of a field."""
        return {"sessionId": self.sessions, "cwd": [self.cwd], **self.fields}


def default_params(name: str, defs: dict[str, Node], version: int, facts: Suggestions) -> Any:
    """Return params with the required fields, and the optional ones that are usual."""
    return _Maker(defs, version, facts).of(defs[name], name, _DEPTH)


class _Maker:
    def __init__(self, defs: dict[str, Node], version: int, facts: Suggestions) -> None:
        self._defs = defs
        self._version = version
        self._facts = facts

    def of(self, node: Node, name: str, depth: int) -> Any:
        """Return a value of a schema, for a field or type of this name."""
        if depth == 0:
            return None
        known = self._known(name)
        if known is not None:
            return known
        if (reference := node.get("$ref")) is not None:
            target = str(reference).removeprefix("#/$defs/")
            return self.of(self._defs[target], name, depth - 1)
        if "properties" not in node and (choices := node.get("anyOf") or node.get("oneOf")):
            return self._first(choices, name, depth)
        kinds = node.get("type")
        match kinds[0] if is_array(kinds) else kinds:
            case "object":
                return self._object(node, depth)
            case "array":
                count = node.get("minItems", 0)
                return [self.of(node["items"], name, depth - 1) for _ in range(count)]
            case "string":
                return self._text(node, name)
            case "integer" | "number":
                return node.get("minimum") or 0
            case "boolean":
                return False
            case None:  # anything
                return {}
            case _:
                return None

    def _first(self, choices: list[Node], name: str, depth: int) -> Any:
        for node in choices:
            if node.get("type") != "null" and "not" not in node:
                return self.of(node, name, depth)
        return None

    def _object(self, node: Node, depth: int) -> dict[str, Any]:
        properties: dict[str, Node] = dict(node.get("properties", {}))
        required: list[str] = list(node.get("required", ()))
        for choices in (node.get("oneOf"), node.get("anyOf")):
            if choices:  # one of several keys
                properties |= choices[0].get("properties", {})
                required += choices[0].get("required", ())
        return {key: self.of(properties[key], key, depth - 1) for key in required}

    def _text(self, node: Node, name: str) -> str:
        if values := node.get("enum"):
            return str(values[0])
        if name in ("path", "cwd"):
            return self._facts.cwd if name == "cwd" else f"{self._facts.cwd.rstrip('/')}/README.md"
        suggested = self._facts.by_field().get(name)
        if suggested:
            return suggested[0]
        if name in _TEXTS:
            return _TEXTS[name]
        return name if name.endswith("Id") or node.get("minLength") else ""

    def _known(self, name: str) -> Any:
        match name:
            case "protocolVersion":
                return self._version
            case "clientInfo" | "info":
                return {"name": "accord-inspect", "version": "1"}
            case "prompt":
                return [{"type": "text", "text": "Hello"}]
            case "mcpServers":
                return []
            case _:
                return None
