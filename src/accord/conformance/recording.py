"""Recorded conversations: one JSON object per line, or plain dumps whose directions are guessed.

A record is `{"time": 0.25, "from": "client", "frame": "…"}`: seconds, who wrote the frame, and
the frame as text (an object is taken, too). `{"from": "agent", "end": true}` says that a side has
ended. Instead of `from` a `direction` is understood, as seen by the client: `sent` or `received`.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from accord import jsontext
from accord.conformance.frame import Side, other
from accord.conformance.observer import Observer
from accord.conformance.shapes import problems
from accord.conformance.talk import methods
from accord.jsontext import is_object

__all__ = ("End", "Recorded", "observe", "read", "write")

_SIDES: dict[str, Side] = {
    "client": "client",
    "agent": "agent",
    "sent": "client",
    "received": "agent",
    "out": "client",
    "in": "agent",
    "client-to-agent": "client",
    "agent-to-client": "agent",
    ">": "client",
    "<": "agent",
}
_PREFIXES: dict[bytes, Side] = {
    b"->": "client",
    b"<-": "agent",
    b">": "client",
    b"<": "agent",
    b"client:": "client",
    b"agent:": "agent",
}


class Recorded(Struct, frozen=True):
    """A frame, who wrote it, and when."""

    time: float
    sender: Side
    text: bytes


class End(Struct, frozen=True):
    """A side sends nothing more."""

    sender: Side


def write(time: float, sender: Side, text: bytes | bytearray) -> bytes:
    """Return the line, with its line feed, that records a frame."""
    frame = bytes(text).decode("utf-8", "surrogateescape")
    record = {"time": round(time, 6), "from": sender, "frame": frame}
    return jsontext.dumps(record) + b"\n"


def read(lines: Iterable[bytes]) -> Iterator[Recorded | End]:
    """Yield what a recording holds; raise `ValueError` at a record that is none."""
    guess = _Guess()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if number == 1:
            text = text.removeprefix(codecs.BOM_UTF8)  # as editors on Windows save
        if not text:
            continue
        value = _json(text)
        if is_object(value) and "jsonrpc" not in value and ("frame" in value or "end" in value):
            yield _record(value, number)
            continue
        sender, frame = _prefixed(text)
        yield Recorded(0.0, sender or guess.sender(_json(frame)), frame)


def observe(lines: Iterable[bytes]) -> Observer:
    """Return an observer that has seen all of a recording, its last judgements not yet told."""
    observer = Observer()
    for item in read(lines):
        match item:
            case Recorded(time, sender, text):
                observer.receive(sender, text, time)
            case End(sender):
                observer.end(sender)
    return observer


def _record(value: dict[str, Any], number: int) -> Recorded | End:
    sender = _SIDES.get(str(value.get("from", value.get("direction"))))
    if sender is None:
        raise ValueError(f'line {number}: `from` is neither "client" nor "agent"')
    if "frame" not in value:
        return End(sender)
    frame, time = value["frame"], value.get("time", 0.0)
    if isinstance(frame, str):
        text = frame.encode("utf-8", "surrogateescape")
    else:
        text = jsontext.dumps(frame)
    return Recorded(float(time) if isinstance(time, int | float) else 0.0, sender, text)


def _prefixed(text: bytes) -> tuple[Side | None, bytes]:
    for prefix, sender in _PREFIXES.items():
        if text.startswith(prefix) and text[len(prefix) :].lstrip()[:1] in b"{[":
            return sender, text[len(prefix) :].lstrip()
    return None, text


def _json(text: bytes) -> Any:
    try:
        return jsontext.loads(text)
    except jsontext.NotJson:
        return None


class _Guess:
    """Tells who wrote a frame: methods have a side that serves them, answers go back."""

    def __init__(self) -> None:
        self._open: dict[Side, dict[Any, str]] = {"client": {}, "agent": {}}

    def sender(self, value: Any) -> Side:
        """Return the likely writer; noise is the agent's, whose stdout it is."""
        if not is_object(value):
            return "agent"
        name, key = value.get("method"), repr(value.get("id"))
        if not isinstance(name, str):
            return self._answer(value, key)
        sender = self._caller(name, "id" in value)
        if sender is None:
            params = value.get("params")
            asked = repr(params.get("requestId")) if is_object(params) else ""
            is_agents = name == "$/cancel_request" and asked not in self._open["client"]
            sender = "agent" if is_agents and asked in self._open["agent"] else "client"
        if "id" in value:
            self._open[sender][key] = name
        return sender

    def _caller(self, name: str, is_request: bool) -> Side | None:
        for version in (1, 2):
            for method in methods(version):
                if method.name == name and method.is_request is is_request:
                    match method.to:
                        case "agent":
                            return "client"
                        case "client":
                            return "agent"
                        case _:
                            return None
        return None

    def _answer(self, value: dict[str, Any], key: str) -> Side:
        waiting: list[Side] = [side for side in ("client", "agent") if key in self._open[side]]
        if not waiting:
            return "agent"
        asker = min(waiting, key=lambda side: self._misfit(self._open[side][key], value))
        del self._open[asker][key]
        return other(asker)

    def _misfit(self, name: str, value: dict[str, Any]) -> int:
        """Tell how badly a result fits a method, where both sides wait for this id."""
        found = [
            len(problems(method.result, value.get("result")))
            for version in (1, 2)
            for method in methods(version)
            if method.name == name and method.is_request
        ]
        return min(found, default=0)
