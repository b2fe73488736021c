"""A hop of a chain: raw messages to and from one component, none of them judged or interpreted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from accord.text.lenient_json import is_object
from accord.transports.base import Frame as Bytes
from accord.transports.base import Transport
from accord_conformance.harness.process_end import exit_error
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.traffic.frame import Frame, Side

# The bytes of a field, or UNSET if the message does not have it.
Field: TypeAlias = Raw | UnsetType


class _Fields(Struct):
    id: Field = UNSET
    method: str | UnsetType = UNSET
    params: Field = UNSET
    result: Field = UNSET
    error: Field = UNSET


class HopMessage(Struct, eq=False):
    """A message of a component: its fields as the bytes that were received."""

    frame: Frame
    id: Field
    method: str | UnsetType
    params: Field
    result: Field
    error: Field

    @property
    def is_response(self) -> bool:
        """Whether it is a response."""
        return self.method is UNSET

    @property
    def code(self) -> Any:
        """The code of the error, if it has one."""
        error = decoded(self.error)
        return error.get("code") if is_object(error) else None


_decoder = msgspec.json.Decoder(_Fields)


class Tape:
    """The frames of all hops of a chain, in the order in which they were sent or received."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._began = time.monotonic()
        self._changed = asyncio.Event()

    def record(self, sender: Side, text: bytes) -> Frame:
        """Add a frame."""
        frame = Frame(len(self.frames) + 1, time.monotonic() - self._began, sender, bytes(text))
        self.frames.append(frame)
        return frame

    def notify(self) -> None:
        """Let `wait_until` look again."""
        self._changed.set()

    async def wait_until(self, holds: Callable[[], bool], within_s: float) -> bool:
        """Wait for a condition, which only a message can make true; return whether it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        return holds()


class RawHop:
    """The kit's end of the connection to one component.

    `on_message` gets every message. `faults` are all other lines.
    """

    def __init__(self, transport: Transport, tape: Tape, me: Side, peer: Side) -> None:
        self.tape = tape
        self.me: Side = me
        self.peer: Side = peer
        self.faults: list[Frame] = []
        self.is_closed = False
        self.close_error: Exception | None = None
        self.on_message: Callable[[HopMessage], None] = lambda _: None
        self._transport = transport

    async def open(self) -> None:
        """Start the transport; raise `TransportError`."""
        await self._transport.start(self)

    async def aclose(self) -> None:
        """Disconnect, which stops a program that was started for this connection."""
        await self._transport.aclose()

    async def exit_error(self) -> Exception | None:
        """Return how the peer exited, after a disconnect; takes about a second at most."""
        return await exit_error(self._transport)

    def send(self, text: bytes) -> Frame:
        """Send a frame as it is."""
        frame = self.tape.record(self.me, text)
        self._transport.write([text])
        return frame

    def send_message(self, **fields: bytes) -> Frame:
        """Send a message with these fields, each as JSON text."""
        members = b",".join(b'"%s":%s' % (name.encode(), text) for name, text in fields.items())
        return self.send(b'{"jsonrpc":"2.0",%s}' % members)

    def send_unrecorded(self, text: bytes) -> None:
        """Send a frame that is too large for a report."""
        self._transport.write([text])

    @property
    def is_congested(self) -> bool:
        """Whether the peer reads slower than the kit writes."""
        return self._transport.congested

    def pause_reading(self) -> None:
        """Stop reading."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading."""
        self._transport.resume_reading()

    async def wait_until(self, holds: Callable[[], bool], what: str, within_s: float) -> None:
        """Wait for a condition, which only a message can make true; raise `NoResponse`."""
        await self.tape.wait_until(lambda: holds() or self.is_closed, within_s)
        if not holds():
            raise NoResponse(
                f"no {what}" + (f": the {self.peer} disconnected" if self.is_closed else "")
            )

    # Calls of the transport.

    def frames_received(self, frames: Sequence[Bytes]) -> None:
        for frame in frames:
            if text := bytes(frame).strip():
                self._received(text)
        self.tape.notify()

    def _received(self, text: bytes) -> None:
        frame = self.tape.record(self.peer, text)
        try:
            fields = _decoder.decode(text)
        except msgspec.DecodeError:
            self.faults.append(frame)
            return
        if fields.method is UNSET and fields.result is UNSET and fields.error is UNSET:
            self.faults.append(frame)
            return
        self.on_message(
            HopMessage(frame, fields.id, fields.method, fields.params, fields.result, fields.error)
        )

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self.faults.append(self.tape.record(self.peer, bytes(head)))
        self.tape.notify()

    def eof_received(self, error: Exception | None) -> None:
        self.is_closed = True
        self.close_error = error
        self.tape.notify()

    def writable(self) -> None:
        self.tape.notify()

    def noise_received(self, text: str) -> None:
        """The peer wrote a line that is not JSON."""
        self.faults.append(self.tape.record(self.peer, text.encode()))
        self.tape.notify()


def decoded(field: Field) -> Any:
    """Return the value of a field; None if it is absent."""
    return None if field is UNSET else msgspec.json.decode(field)


def encoded(value: Any) -> bytes:
    """Return a value as JSON text."""
    return msgspec.json.encode(value)
