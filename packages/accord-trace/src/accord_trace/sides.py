"""Guesses the directions of frames that were saved without them."""

from __future__ import annotations

from functools import cache
from typing import Any

from accord.text.lenient_json import is_object
from accord.v1.methods import METHODS as V1_METHODS
from accord.v2.methods import METHODS as V2_METHODS
from accord_trace.records import Direction


class DirectionGuess:
    """Guesses by method and id: one side serves a method, and responses go back.

    `first` decides for the first message whose method says nothing.
    """

    def __init__(self, first: Direction = "to_agent") -> None:
        self._first: Direction = first
        self._open: dict[Direction, dict[str, str]] = {"to_agent": {}, "to_client": {}}

    def direction(self, value: Any) -> Direction:
        """Return the likely direction of a message."""
        if not is_object(value):
            return "to_client"  # noise is from the agent's stdout
        key, method = repr(value.get("id")), value.get("method")
        if not isinstance(method, str):
            return self._back(key)
        direction = _direction_of(method, "id" in value) or self._of_cancel(method, value)
        if "id" in value:
            self._open[direction][key] = method
        return direction

    def _back(self, key: str) -> Direction:
        """Return the direction of a response: if both sides wait for it, the older request."""
        for asked, answered in _ANSWERS.items():
            if key in self._open[asked]:
                del self._open[asked][key]
                return answered
        return _ANSWERS[self._first]

    def _of_cancel(self, method: str, value: dict[str, Any]) -> Direction:
        params = value.get("params")
        if method == "$/cancel_request" and is_object(params):
            key = repr(params.get("requestId"))
            for direction, waiting in self._open.items():
                if key in waiting:
                    return direction
        return self._first


_ANSWERS: dict[Direction, Direction] = {"to_agent": "to_client", "to_client": "to_agent"}


@cache
def _direction_of(method: str, is_request: bool) -> Direction | None:
    found = {
        row.to
        for row in (*V1_METHODS, *V2_METHODS)
        if row.name == method and (row.result is not None) is is_request
    }
    if found == {"agent"}:
        return "to_agent"
    return "to_client" if found == {"client"} else None
