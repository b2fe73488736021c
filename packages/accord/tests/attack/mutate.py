"""Almost valid frames: real messages with one part changed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

__all__ = ("Mutator", "places")

_NUMBER = "\0number\0"  # represents a text that json cannot encode
_TEXTS = [
    "",
    " ",
    "\0",
    "\ud800",
    "😀",
    "a" * 300,
    "_custom",
    "x-new",
    "/",
    "..",
    "\u202e",
    "\r\n",
    '"}\n{"',
    "help",
    "s1",
    "agent",
    "file:///etc/passwd",
]
_NUMBERS = [0, -1, 1, 2, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63) - 1, 10**30, 0.5, 1.0, -0.0]
_RAW_NUMBERS = ["1e400", "-1e999", "1e-400", "1.0", "1" * 400, "1" * 5000, "-0", "1E2"]
_KEYS = ["_meta", "type", "id", "sessionId", "sessionUpdate", "method", "params", "result", "error"]


class Mutator:
    """Changes messages with a random number generator: the same seed makes the same changes."""

    def __init__(self, rng: random.Random, pool: list[Any]) -> None:
        """Create a mutator that inserts parts of the messages in `pool`."""
        self._rng = rng
        self._pool = pool

    def frame(self, message: Any) -> bytes:
        """Return a message as bytes, with changed structure, changed text, or unchanged."""
        rng = self._rng
        chance = rng.random()
        if chance < 0.1:
            return json.dumps(message).encode()
        if chance < 0.85:
            message = copy.deepcopy(message)
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                message = self._changed(message)
        text = json.dumps(message).encode()
        text = text.replace(json.dumps(_NUMBER).encode(), rng.choice(_RAW_NUMBERS).encode())
        if chance >= 0.85:
            text = self._bent(text)
        return text.replace(b"\n", b" ")  # one line is one frame

    def _changed(self, message: Any) -> Any:
        rng = self._rng
        path = rng.choice(list(places(message)))
        if not path:
            more = {**message, rng.choice(_KEYS): 1} if isinstance(message, dict) else {}
            return rng.choice([[message], None, {}, more])
        parent = message
        for step in path[:-1]:
            parent = parent[step]
        last = path[-1]
        match rng.randrange(7):
            case 0:
                del parent[last]
            case 1 if isinstance(parent, dict):
                parent[rng.choice(_KEYS)] = parent.pop(last)
            case 2:
                parent[last] = [parent[last]]
            case 3 if isinstance(parent[last], (dict, list)):
                parent[last] = self._deep()
            case 4:
                other = rng.choice(self._pool)
                for step in rng.choice(list(places(other))):
                    other = other[step]
                parent[last] = copy.deepcopy(other)
            case _:
                parent[last] = self._odd()
        return message

    def _odd(self) -> Any:
        rng = self._rng
        return rng.choice(
            [None, True, False, rng.choice(_NUMBERS), rng.choice(_TEXTS), _NUMBER, [], {}, [None]]
        )

    def _deep(self) -> Any:
        value: Any = self._odd()
        for _ in range(self._rng.choice((2, 10, 200))):
            value = [value] if self._rng.random() < 0.5 else {"a": value}
        return value

    def _bent(self, text: bytes) -> bytes:
        rng = self._rng
        at = rng.randrange(len(text))
        match rng.randrange(6):
            case 0:
                return text[:at]
            case 1:
                return text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
            case 2:
                return text[:at] + rng.choice([b"\xff", b"\xed\xa0\x80", b"\0", b"\r"]) + text[at:]
            case 3:
                return b"\xef\xbb\xbf" + text
            case 4:
                return text + text
            case _:
                return b"[" * rng.choice((1, 50, 5000)) + text


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value inside a JSON value, itself included."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))
