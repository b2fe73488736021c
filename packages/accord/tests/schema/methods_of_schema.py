"""The methods of the official schema, from its annotations and message types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schema.model_of_schema import SchemaModel

Node = dict[str, Any]

ENVELOPES = tuple(
    f"{side}{kind}"
    for side in ("Agent", "Client", "Proxy")
    for kind in ("Request", "Response", "Notification")
)
# Messages without a method: any JSON under a name with an underscore.
EXTENSIONS = ("ExtRequest", "ExtResponse", "ExtNotification")


@dataclass(frozen=True)
class SchemaMethod:
    """One method in one direction: `to` is the side that serves it."""

    name: str
    to: str
    params: str
    result: str | None

    @property
    def key(self) -> tuple[str, bool]:
        return self.name, self.result is not None


def methods_of_schema(model: SchemaModel) -> dict[tuple[str, bool], SchemaMethod]:
    """Return the methods by name and whether they are requests."""
    requests = _messages(model, "Request")
    results = {(_method(node), _side(node)): name for name, node in _messages(model, "Response")}
    found: list[SchemaMethod] = []
    for name, node in requests:
        result = results.pop((_method(node), _side(node)))
        found.append(SchemaMethod(_method(node), _side(node), name, result))
    assert not results, f"results without a request: {results}"
    for name, node in [*_messages(model, "Notification"), *_protocol_level(model)]:
        found.append(SchemaMethod(_method(node), _side(node), name, None))
    by_key = {method.key: method for method in found}
    assert len(by_key) == len(found)
    marked = {name for name, node in model.defs.items() if "x-method" in node}
    reported = {name for method in found for name in (method.params, method.result)}
    assert marked == reported - {None}, marked ^ reported
    return by_key


def _messages(model: SchemaModel, kind: str) -> list[tuple[str, Node]]:
    found: list[tuple[str, Node]] = []
    for side in ("Agent", "Client", "Proxy"):
        # The stable schema has no proxies.
        envelope = model.defs.get(f"{side}{kind}", {})
        names = _references(envelope) - {"RequestId", "Error", *EXTENSIONS}
        found += [(name, model.defs[name]) for name in sorted(names)]
    return found


def _protocol_level(model: SchemaModel) -> list[tuple[str, Node]]:
    (part,) = [part for part in model.root["anyOf"] if part["title"] == "ProtocolLevel"]
    return [(name, model.defs[name]) for name in sorted(_references(part))]


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for part in node for name in _references(part)}
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"].removeprefix("#/$defs/")} if "$ref" in node else set()
    return own | {name for part in node.values() for name in _references(part)}


def _method(node: Node) -> str:
    name: str = node["x-method"]
    return name


def _side(node: Node) -> str:
    side: str = node["x-side"]
    return side
