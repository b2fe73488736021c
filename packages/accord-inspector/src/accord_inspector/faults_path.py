"""One direction of a connection, on which faults act."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.transports.base import HIGH_BYTES, LOW_BYTES, Frame
from accord_inspector.faults import ActiveFault, Faults
from accord_trace.records import Direction

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
