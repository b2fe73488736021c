"""Transports in one process with a simulated network: delays, pieces, stalls, disconnects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from accord.errors import ConnectionClosed, ConnectionLost
from accord.jsonrpc.message import LineReader
from accord.transports.base import FRAME_BYTES, HIGH_BYTES, LOW_BYTES, Frame, Receiver, Transport

__all__ = ("Cut", "Network", "SimulatedTransport", "link")

_FLUSH_S = 2.0  # time for the peer to read the remaining bytes when a side closes


class Cut(Struct, omit_defaults=True):
    """How a connection ends unexpectedly.

    `reset` ends both directions at once, in the middle of a frame; `eof` ends the output of one
    side; `death` ends one side: its unsent bytes are lost.
    """

    kind: Literal["reset", "eof", "death"] = "reset"
    side: Literal["client", "agent"] = "agent"
    after_bytes: int = 0  # sent by this side


class Network(Struct, omit_defaults=True):
    """The properties of one connection, both ways. Sizes in bytes, times in virtual seconds."""

    delay_s: float = 0.0
    jitter_s: float = 0.0
    piece_bytes: int = 65536  # the maximum of one read
    write_bytes: int = 65536  # the maximum of one write
    stall_one_in: int = 0  # the number of reads
    stall_s: float = 0.0
    frame_bytes: int = FRAME_BYTES
    cut: Cut | None = None

    def longest_s(self, size_bytes: int) -> float:
        """Return about the longest time until this number of bytes has arrived."""
        reads = 1 + 8 * size_bytes / max(1, min(self.piece_bytes, self.write_bytes))
        stalls = 1 + reads / self.stall_one_in if self.stall_one_in else 0
        return reads * (self.delay_s + self.jitter_s) + 3 * stalls * self.stall_s


class _Way:
    """One direction: written bytes, and bytes in transit."""

    def __init__(self, network: Network, chance: random.Random) -> None:
        self.unsent = bytearray()
        self.arrived = bytearray()  # for a reader that does not read
        self.sent_bytes = 0
        self.most_unsent_bytes = 0
        self.written_to_end = False
        self.broken = False  # no more bytes arrive
        self.ended = False  # the reader was notified of the end
        self.moving: asyncio.Handle | None = None
        self.congested = False
        self.network = network
        self.chance = chance
        self.deliver: Callable[[bytes], None] | None = None
        self.end: Callable[[], None] | None = None
        self.drained: Callable[[], None] = _nothing
        self.passed: Callable[[int], None] = _passed
        self.paused = True

    def put(self, data: bytes) -> None:
        if self.written_to_end or self.broken:
            return
        self.unsent += data
        self.most_unsent_bytes = max(self.most_unsent_bytes, len(self.unsent))
        self.congested = self.congested or len(self.unsent) > HIGH_BYTES
        self.go_on()

    def go_on(self) -> None:
        """Move the next piece if possible."""
        if self.moving or self.deliver is None or self.ended or self.paused:
            return
        if self.arrived:
            self._later(0.0)
        elif self.unsent or self.written_to_end:
            self._later(self._delay())

    def _later(self, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        if delay_s:
            self.moving = loop.call_later(delay_s, self._move)
        else:
            self.moving = loop.call_soon(self._move)

    def _delay(self) -> float:
        network, chance = self.network, self.chance
        if network.stall_one_in and chance.randrange(network.stall_one_in) == 0:
            return network.stall_s
        if network.jitter_s and chance.random() < 0.5:
            return network.delay_s + network.jitter_s * chance.random()
        return network.delay_s

    def _move(self) -> None:
        self.moving = None
        if self.broken or self.deliver is None or self.ended:
            return
        if not self.arrived and self.unsent:
            most = min(self.network.piece_bytes, self.network.write_bytes)
            size = most if self.chance.random() < 0.5 else self.chance.randint(1, most)
            self.arrived += self.unsent[:size]
            size = min(size, len(self.unsent))
            del self.unsent[:size]
            self.sent_bytes += size
            if self.congested and len(self.unsent) < LOW_BYTES:
                self.congested = False
                self.drained()
            self.passed(self.sent_bytes)
            if self.broken:
                return
        if self.paused:
            return
        if self.arrived:
            data = bytes(self.arrived)
            self.arrived.clear()
            self.deliver(data)
        elif self.written_to_end and not self.unsent:
            self.ended = True
            if self.end is not None:
                self.end()
            return
        self.go_on()

    def finish(self) -> None:
        """End the input: no more bytes are written."""
        self.written_to_end = True
        self.go_on()

    def end_for_good(self) -> None:
        """Stop the direction; bytes in transit are lost."""
        self.broken = True
        if self.moving is not None:
            self.moving.cancel()
        self.drop()

    def drop(self) -> None:
        """Drop the bytes in transit."""
        self.unsent.clear()
        self.arrived.clear()

    @property
    def idle(self) -> bool:
        return self.broken or self.ended or not (self.unsent or self.arrived or self.moving)


class SimulatedTransport(Transport):
    """One end of a connection; created by `link`."""

    def __init__(self, outgoing: _Way, incoming: _Way, frame_bytes: int) -> None:
        self.frame_bytes = frame_bytes
        self.max_waiting_bytes = 0
        self.heard: Callable[[bytes], None] = _heard  # receives a copy of each read
        self.is_cut = False
        self.on_cut: Callable[[], None] = _nothing
        self.on_closed: Callable[[], None] = _nothing
        self._out = outgoing
        self._in = incoming
        self._lines = LineReader(frame_bytes)
        self._receiver: Receiver | None = None
        self._closed = False
        self._lost: ConnectionLost | None = None

    async def start(self, receiver: Receiver) -> None:
        if self._closed:
            raise ConnectionClosed("The transport was closed")
        self._receiver = receiver
        self._in.deliver = self._read
        self._in.end = self._end
        self._out.drained = self._writable_soon
        self._in.paused = False
        self._in.go_on()

    def write(self, frames: Sequence[Frame]) -> None:
        if not self._closed and frames:
            self._out.put(b"\n".join((*frames, b"")))

    @property
    def congested(self) -> bool:
        return self._out.congested and not self._closed and not self._out.broken

    @property
    def unsent_bytes(self) -> int:
        """The written bytes that have not been sent."""
        return len(self._out.unsent)

    @property
    def most_unsent_bytes(self) -> int:
        """The maximum of unsent bytes so far."""
        return self._out.most_unsent_bytes

    @property
    def is_idle(self) -> bool:
        """Whether no bytes are in transit to the other side."""
        return self._out.idle

    def pause_reading(self) -> None:
        self._in.paused = True

    def resume_reading(self) -> None:
        if self._receiver is not None:
            self._in.paused = False
            self._in.go_on()

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._receiver = None
        self._in.deliver = self._in.end = None
        self._in.drop()
        # The other side reads the remaining bytes, or does not in time.
        loop = asyncio.get_running_loop()
        over_s = loop.time() + _FLUSH_S
        while self._out.unsent and not self._out.broken and loop.time() < over_s:
            await asyncio.sleep(0.05)
        if self._out.unsent:
            self._out.drop()
        self._out.finish()
        self._in.end_for_good()
        self.on_closed()

    async def exit_error(self) -> Exception | None:
        return self._lost

    def lose(self) -> None:
        """End both directions for this end."""
        self._lost = ConnectionLost("The connection was cut")
        self._out.end_for_good()
        self._in.end_for_good()
        if self._receiver is not None:
            asyncio.get_running_loop().call_soon(self._gone)

    def stop_sending(self) -> None:
        """End the output of this end; later writes are lost."""
        self._out.finish()

    def peer_reads_nothing_more(self) -> None:
        """Handle the close of the other end: writes are lost."""
        self._out.end_for_good()
        self._writable_soon()

    def _gone(self) -> None:
        if self._receiver is not None and not self._in.ended:
            self._lost = self._lost or ConnectionLost("The peer has gone")
            self._in.ended = True
            self._writable()
            self._receiver.eof_received(self._lost)

    def _read(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        self.heard(data)
        frames = self.spoil(self._lines.feed(data))
        if frames:
            receiver.frames_received(frames)
        refused, self._lines.refused = self._lines.refused, []
        for head in refused:
            receiver.frame_refused(self.frame_bytes, head)

    def spoil(self, frames: list[Frame]) -> list[Frame]:
        """Return the frames to deliver; tests of the oracles change them."""
        return frames

    def _end(self) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        if frames := self._lines.finish():
            receiver.frames_received(frames)
        receiver.eof_received(self._lost)

    def _writable_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._writable)

    def _writable(self) -> None:
        if self._receiver is not None and not self.congested:
            self._receiver.writable()


def link(
    network: Network,
    chance: random.Random,
    *,
    died: Callable[[str], None] | None = None,
) -> tuple[SimulatedTransport, SimulatedTransport]:
    """Return the client's end and the agent's end; `died` is called with the side that died."""
    there, back = _Way(network, chance), _Way(network, chance)
    client = SimulatedTransport(there, back, network.frame_bytes)
    agent = SimulatedTransport(back, there, network.frame_bytes)
    client.on_closed = agent.peer_reads_nothing_more
    agent.on_closed = client.peer_reads_nothing_more
    if (cut := network.cut) is not None:
        way, end, other = (back, agent, client) if cut.side == "agent" else (there, client, agent)

        def passed(sent_bytes: int) -> None:
            if sent_bytes < cut.after_bytes or end.is_cut:
                return
            end.is_cut = other.is_cut = True
            end.on_cut()
            if cut.kind == "eof":
                end.stop_sending()
                return
            end.lose()
            other.lose()
            if cut.kind == "death" and died is not None:
                died(cut.side)

        way.passed = passed
    return client, agent


def _nothing() -> None:
    pass


def _passed(_sent_bytes: int) -> None:
    pass


def _heard(_data: bytes) -> None:
    pass
