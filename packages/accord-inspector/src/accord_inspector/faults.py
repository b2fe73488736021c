"""Faults that the inspector puts on a connection, switched on and off while it runs.

`Faults` has those that are on; `FaultPath` is one direction of a connection, on which they act.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from accord.transports.base import HIGH_BYTES, LOW_BYTES, Frame
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


REORDER_S = 1.0  # for the next message to come, which overtakes this one

_Item: TypeAlias = tuple[float, Frame | Callable[[], None]]


class _Envelope(Struct, gc=False):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Envelope).decode


class FaultPath:
    """Passes frames on to `deliver`, in order, except for what the faults do to them.

    `cut` is called when a fault ends the connection, and `on_free` when `congested` becomes False.
    Without faults, frames are delivered within the call.
    """

    def __init__(
        self,
        faults: Faults,
        direction: Direction,
        deliver: Callable[[Sequence[Frame]], None],
        *,
        cut: Callable[[], None],
        on_free: Callable[[], None] = lambda: None,
    ) -> None:
        self._faults = faults
        self._direction: Direction = direction
        self._deliver = deliver
        self._cut = cut
        self._on_free = on_free
        self._on: list[ActiveFault] = []
        self._waiting: deque[_Item] = deque()
        self._waiting_bytes = 0
        self._last_due = 0.0
        self._overtaken: Frame | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._is_paused = False
        self._congested = False
        self._stop_listening = faults.listen(self._switched)
        self._on = faults.on(direction)
        self._note_congestion()

    @property
    def is_frozen(self) -> bool:
        """Whether a fault lets nothing pass."""
        return any(active.fault.kind == "freeze" for active in self._on)

    @property
    def is_active(self) -> bool:
        """Whether frames may be changed, or wait."""
        return bool(self._on or self._waiting or self._overtaken or self._faults.knows_methods)

    @property
    def _is_held(self) -> bool:
        return self._is_paused or self.is_frozen

    @property
    def congested(self) -> bool:
        """Whether the source should stop, until `on_free` is called."""
        return self._congested

    def pass_frames(self, frames: Sequence[Frame], number: int | None = None) -> None:
        """Pass frames on; `number` is the row of the first one in the recording."""
        if self._is_closed:
            return
        if not self.is_active:
            self._deliver(frames)
            return
        for place, frame in enumerate(frames):
            self._pass(frame, None if number is None else number + place)
            if self._is_closed:
                return
        self._deliver_due()

    def pause(self) -> None:
        """Deliver nothing of what waits, until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        """Deliver what is due."""
        self._is_paused = False
        self._deliver_due()

    def end(self, then: Callable[[], None]) -> None:
        """Call a function after the frames that wait, unless the path is closed before."""
        if self._is_closed:
            return
        self._release_overtaken()
        self._waiting.append((self._last_due, then))
        self._deliver_due()

    def flush(self) -> None:
        """Deliver what waits at once, also what a fault holds back, and close."""
        self._release_overtaken()
        frames = [item for _, item in self._waiting if isinstance(item, bytes | bytearray)]
        self._deliver_now(frames)
        self.close()

    def close(self) -> None:
        """Drop what waits; may be called repeatedly."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_listening()
        self._waiting.clear()
        self._waiting_bytes = 0
        self._overtaken = None
        self._congested = False
        if self._timer is not None:
            self._timer.cancel()

    def _pass(self, frame: Frame, number: int | None) -> None:
        method = self._method(frame) if self._faults.knows_methods else ""
        due = self._now()
        copies, overtaken = 1, False
        for active in tuple(self._on):
            if not self._faults.chooses(active, method):
                continue
            fault = active.fault
            self._faults.applied(active, number, len(frame))
            match fault.kind:
                case "delay":
                    due = max(due, self._now() + fault.delay_ms / 1000)
                case "slow":
                    per_byte = 1 / fault.bytes_per_s if fault.bytes_per_s else 0.0
                    due = max(due, self._last_due) + fault.delay_ms / 1000 + len(frame) * per_byte
                case "drop":
                    return
                case "duplicate":
                    copies += 1
                case "reorder":
                    overtaken = self._overtaken is None
                case "corrupt":
                    frame = self._faults.corrupted(active, frame)
                case "cut":
                    self._deliver_due()
                    self._close_connection()
                    return
                case "freeze" | "suspend":
                    pass
        self._last_due = max(self._last_due, due)
        if overtaken:
            self._overtaken = frame
            self._set_timer()
            return
        self._wait(frame, copies)
        self._release_overtaken()

    def _method(self, frame: Frame) -> str:
        try:
            envelope = _decode(frame)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        return self._faults.method_of(
            self._direction,
            None if envelope.id is UNSET else bytes(envelope.id),
            None if envelope.method is UNSET else envelope.method,
        )

    def _wait(self, frame: Frame, copies: int = 1) -> None:
        for _ in range(copies):
            self._waiting.append((self._last_due, frame))
            self._waiting_bytes += len(frame)

    def _release_overtaken(self) -> None:
        if self._overtaken is not None:
            frame, self._overtaken = self._overtaken, None
            self._wait(frame)

    def _close_connection(self) -> None:
        self.close()
        self._cut()

    def _deliver_due(self) -> None:
        """Deliver what is due, and wait for the rest."""
        if self._is_closed:
            return
        now = self._now()
        frames: list[Frame] = []
        while self._waiting and not self._is_held and self._waiting[0][0] <= now:
            _, item = self._waiting.popleft()
            if isinstance(item, bytes | bytearray):
                frames.append(item)
                self._waiting_bytes -= len(item)
                continue
            self._deliver_now(frames)
            frames = []
            item()
        self._deliver_now(frames)
        if self._is_closed:
            return
        self._set_timer()
        self._note_congestion()

    def _note_congestion(self) -> None:
        limit = LOW_BYTES if self._congested else HIGH_BYTES
        was, self._congested = self._congested, self.is_frozen or self._waiting_bytes > limit
        if was and not self._congested:
            self._on_free()

    def _deliver_now(self, frames: list[Frame]) -> None:
        if frames and not self._is_closed:
            self._deliver(frames)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_held:
            return
        due: list[float] = [self._waiting[0][0]] if self._waiting else []
        if self._overtaken is not None:
            due.append(self._now() + REORDER_S)
        if due:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(min(due), self._time_over)

    def _time_over(self) -> None:
        if not self._waiting:
            self._release_overtaken()
        self._deliver_due()

    def _switched(self, switched: ActiveFault, by_hand: bool) -> None:
        """Follow a switch; what waits only for a fault that was switched off is delivered."""
        self._on = self._faults.on(self._direction)
        fault = switched.fault
        if fault.direction != self._direction or not by_hand:
            return
        if switched.is_on:
            if fault.kind == "cut" and fault.is_unconditional:
                self._faults.applied(switched, None, 0)
                self._close_connection()
        elif fault.kind in ("delay", "slow"):
            self._waiting = deque((0.0, item) for _, item in self._waiting)
            self._last_due = 0.0
        elif fault.kind == "reorder":
            self._release_overtaken()
        self._deliver_due()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def suspender(pid: int) -> Callable[[bool], None] | None:
    """Return what stops or continues the process group of an agent; None on Windows."""
    if sys.platform == "win32":
        return None

    def suspend(stop: bool) -> None:
        with suppress(ProcessLookupError, PermissionError):  # it has ended
            os.killpg(pid, signal.SIGSTOP if stop else signal.SIGCONT)

    return suspend
