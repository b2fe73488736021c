"""Faults that the inspector puts on a connection, switched on and off while it runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from accord_trace.records import Direction

FaultKind: TypeAlias = Literal[
    "delay", "slow", "drop", "duplicate", "reorder", "corrupt", "freeze", "cut", "suspend"
]
Corruption: TypeAlias = Literal["truncated", "garbled", "not_json"]

MAX_MARKS = 200_000  # messages that are remembered with what happened to them
MAX_FAULTS = 100
_MAX_OPEN = 10_000  # requests whose method is remembered for their response

_DONE: dict[FaultKind, str] = {
    "delay": "delayed",
    "slow": "slowed down",
    "drop": "dropped",
    "duplicate": "duplicated",
    "reorder": "sent after the next message",
    "corrupt": "corrupted",
    "freeze": "held back",
    "cut": "the connection was cut",
    "suspend": "the process was suspended",
}


class Fault(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What goes wrong, in which direction, and with which messages.

    A message is chosen if its method, or that of the request that it answers, matches `method`
    (empty: every one, `*` matches any text), if it is the `every`-th of these, and with the
    `probability`, drawn with the `seed`. After `times` messages the fault is switched off; 0 means
    until it is switched off by hand. `delay_ms` is the time of `delay`, and of each message of
    `slow`; `bytes_per_s` is the bandwidth of `slow`, 0 is without a limit.
    """

    kind: FaultKind
    direction: Direction = "to_client"
    method: Annotated[str, Meta(max_length=200)] = ""
    every: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    probability: Annotated[float, Meta(ge=0, le=1)] = 1.0
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0
    times: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    delay_ms: Annotated[float, Meta(ge=0, le=3_600_000)] = 1000.0
    bytes_per_s: Annotated[int, Meta(ge=0, le=10**12)] = 0
    corruption: Corruption = "truncated"

    @property
    def is_unconditional(self) -> bool:
        """Whether it concerns every message."""
        return not self.method and self.every == 1 and self.probability >= 1


class ActiveFault(Struct, eq=False):
    """A fault that was added, and what it did: messages and bytes that it concerned."""

    id: int
    fault: Fault
    is_on: bool = True
    seen: int = 0
    messages: int = 0
    bytes: int = 0


class Faults:
    """The faults of an inspected agent, of all its connections.

    `marks` says what happened to which message of the recording. `on_change` is called after each
    change, often many times in a row. `suspend` stops or continues the agent's process; None if
    it does not run on this machine.
    """

    def __init__(
        self,
        on_change: Callable[[], None] = lambda: None,
        suspend: Callable[[bool], None] | None = None,
    ) -> None:
        self.active: list[ActiveFault] = []
        self.marks: dict[int, str] = {}
        self.suspend: Callable[[bool], None] | None = suspend
        self._on_change = on_change
        self._listeners: list[Callable[[ActiveFault, bool], None]] = []
        self._random: dict[int, random.Random] = {}
        self._open: dict[tuple[Direction, bytes], str] = {}
        self._last_id = 0

    def add(self, fault: Fault) -> ActiveFault:
        """Switch a fault on; raise `ValueError` if that is not possible."""
        if fault.kind == "suspend" and self.suspend is None:
            raise ValueError("The agent's process cannot be suspended: it does not run here")
        if fault.kind == "freeze" and (fault.times or not fault.is_unconditional):
            raise ValueError("freeze concerns every message until it is switched off")
        if len(self.active) >= MAX_FAULTS:
            raise ValueError(f"There are already {MAX_FAULTS} faults; remove one first")
        self._last_id += 1
        active = ActiveFault(self._last_id, fault)
        self._random[active.id] = random.Random(fault.seed)
        self.active.append(active)
        self._switched(active)
        return active

    def switch(self, number: int, *, on: bool) -> None:
        """Switch a fault on again, or off; raise `LookupError` if it is unknown."""
        active = self._find(number)
        if active.is_on is not on:
            active.is_on = on
            if on:
                active.seen = active.messages = active.bytes = 0
            self._switched(active)

    def remove(self, number: int) -> None:
        """Switch a fault off and forget it; raise `LookupError` if it is unknown."""
        active = self._find(number)
        self.switch(number, on=False)
        self.active.remove(active)
        del self._random[number]
        self._on_change()

    def all_off(self) -> None:
        """Switch all faults off: what they hold back is delivered."""
        for active in self.active:
            self.switch(active.id, on=False)

    def continue_process(self) -> None:
        """Continue the agent's process if a fault has suspended it."""
        for active in self.active:
            if _is_suspend(active):
                self.switch(active.id, on=False)

    def state(self) -> dict[str, Any]:
        """Return what the page shows of the faults."""
        return {
            "faults": [msgspec.to_builtins(active) for active in self.active],
            "on": sum(active.is_on for active in self.active),
            "can_suspend": self.suspend is not None,
        }

    # For the paths, in both directions of each connection.

    def listen(self, listener: Callable[[ActiveFault, bool], None]) -> Callable[[], None]:
        """Call a function when a fault is switched, and whether by hand; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def on(self, direction: Direction) -> list[ActiveFault]:
        """Return the faults that are on in this direction, in the order of their addition."""
        return [
            active
            for active in self.active
            if active.is_on and active.fault.direction == direction and not _is_suspend(active)
        ]

    @property
    def knows_methods(self) -> bool:
        """Whether a fault selects by method, so that requests must be remembered."""
        return any(active.is_on and active.fault.method for active in self.active)

    def method_of(self, direction: Direction, number: bytes | None, method: str | None) -> str:
        """Return the method of a message, or of the request that it answers; "" if unknown."""
        if method is not None:
            if number is not None and len(self._open) < _MAX_OPEN:
                self._open[direction, number] = method
            return method
        asked: Direction = "to_client" if direction == "to_agent" else "to_agent"
        return "" if number is None else self._open.pop((asked, number), "")

    def chooses(self, active: ActiveFault, method: str) -> bool:
        """Return True if a fault concerns the next message."""
        fault = active.fault
        if fault.method and not fnmatchcase(method, fault.method):
            return False
        active.seen += 1
        if active.seen % fault.every:
            return False
        return fault.probability >= 1 or self._random[active.id].random() < fault.probability

    def applied(self, active: ActiveFault, number: int | None, size: int) -> None:
        """Count a message that a fault concerned; `number` is its row in the recording."""
        active.messages += 1
        active.bytes += size
        if number is not None:
            text = _DONE[active.fault.kind]
            if (before := self.marks.get(number)) is not None and text not in before:
                text = f"{before}, {text}"
            self.marks[number] = text
            if len(self.marks) > MAX_MARKS:
                del self.marks[next(iter(self.marks))]
        if active.messages == active.fault.times or active.fault.kind == "cut":
            active.is_on = False
            self._switched(active, by_hand=False)
        else:
            self._on_change()

    def corrupted(self, active: ActiveFault, frame: bytes | bytearray) -> bytes:
        """Return a frame as it arrives damaged."""
        match active.fault.corruption:
            case "truncated":
                return bytes(frame[: max(len(frame) // 2, 1)])
            case "not_json":
                return b"{not JSON: " + bytes(frame)
            case "garbled":
                new = bytearray(frame)
                choose = self._random[active.id]
                for _ in range(3):
                    new[choose.randrange(len(new))] = choose.choice(b"\x00\x07?#~")
                return bytes(new)

    def _find(self, number: int) -> ActiveFault:
        for active in self.active:
            if active.id == number:
                return active
        raise LookupError(f"Unknown fault {number}")

    def _switched(self, active: ActiveFault, *, by_hand: bool = True) -> None:
        if _is_suspend(active) and self.suspend is not None:
            is_suspended = any(one.is_on for one in self.active if _is_suspend(one))
            self.suspend(is_suspended)
            active.messages += active.is_on
        if not self.knows_methods:
            self._open.clear()
        for listener in tuple(self._listeners):
            listener(active, by_hand)
        self._on_change()


def _is_suspend(active: ActiveFault) -> bool:
    return active.fault.kind == "suspend"
