"""Guesses who wrote a frame of a plain dump."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.traffic.connection_state import methods
from accord_conformance.traffic.frame import Side, other
from accord_conformance.traffic.strict_types import find_problems


class DirectionGuesser:
    """Guesses the sender of a frame: one side serves a method, and responses go back."""

    def __init__(self) -> None:
        self._open: dict[Side, dict[Any, tuple[str, int]]] = {"client": {}, "agent": {}}
        self._requests = 0

    def sender(self, value: Any) -> Side:
        """Return the likely sender; noise is from the agent's stdout."""
        if not is_object(value):
            return "agent"
        name, key = value.get("method"), repr(value.get("id"))
        if not isinstance(name, str):
            return self._response_sender(value, key)
        sender = sender_of_method(name, "id" in value)
        if sender is None:
            params = value.get("params")
            asked = repr(params.get("requestId")) if is_object(params) else ""
            is_agents = name == "$/cancel_request" and asked not in self._open["client"]
            sender = "agent" if is_agents and asked in self._open["agent"] else "client"
        if "id" in value:
            self._requests += 1
            self._open[sender][key] = name, self._requests
        return sender

    def _response_sender(self, value: dict[str, Any], key: str) -> Side:
        waiting: list[Side] = [side for side in ("client", "agent") if key in self._open[side]]
        if not waiting:
            return "agent"

        def unlikely(side: Side) -> tuple[int, int]:
            name, number = self._open[side][key]
            # An error fits every method; the later request is usually a part of the earlier one.
            return (self._mismatch_count(name, value) if "result" in value else 0, -number)

        asker = min(waiting, key=unlikely)
        del self._open[asker][key]
        return other(asker)

    def _mismatch_count(self, name: str, value: dict[str, Any]) -> int:
        """Return how badly a result fits a method, if both sides wait for this id."""
        found = [
            len(find_problems(method.result, value.get("result")))
            for version in (1, 2)
            for method in methods(version)
            if method.name == name and method.is_request
        ]
        return min(found, default=0)


def sender_of_method(name: str, is_request: bool) -> Side | None:
    """Return the side that calls a method; None if both do or the method is unknown."""
    found = {
        method.to
        for version in (1, 2)
        for method in methods(version)
        if method.name == name and method.is_request is is_request
    }
    if found == {"agent"}:
        return "client"
    return "agent" if found == {"client"} else None
