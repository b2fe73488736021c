"""A transport on which faults act, in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from accord.errors import ConnectionLost
from accord.transports.base import Frame, NullReceiver, Receiver, Transport
from accord_inspector.faults import Faults
from accord_inspector.faults_path import FaultPath
from accord_trace.records import Direction


class FaultyTransport(Transport):
    """Wraps the client's transport to an agent, which it owns.

    `observe` gets all frames as their sender has sent them, before faults act on them; it returns
    the row of the first one in the recording, or None.
    """

    def __init__(
        self,
        inner: Transport,
        faults: Faults,
        observe: Callable[[Direction, Sequence[Frame]], int | None],
    ) -> None:
        self.frame_bytes = inner.frame_bytes
        self.inner: Transport = inner
        self.faults: Faults = faults
        self._observe = observe
        self._receiver: Receiver = NullReceiver()
        self._is_paused = False
        self._has_ended = False
        self._closing: asyncio.Task[None] | None = None
        self._to_agent = FaultPath(
            faults, "to_agent", self._write, cut=self._cut, on_free=self._agent_is_free
        )
        self._to_client = FaultPath(
            faults, "to_client", self._deliver, cut=self._cut, on_free=self._client_is_free
        )

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        try:
            await self.inner.start(_Inner(self))
        except BaseException:
            self._close_paths()
            raise

    def write(self, frames: Sequence[Frame]) -> None:
        if frames:
            self.send("to_agent", frames)

    def send(self, direction: Direction, frames: Sequence[Frame]) -> int | None:
        """Send frames as if the client, or the agent, had sent them; return the first one's row."""
        if self._closing is not None:
            return None
        number = self._observe(direction, frames)
        path = self._to_agent if direction == "to_agent" else self._to_client
        path.pass_frames(frames, number)
        return number

    @property
    def congested(self) -> bool:
        return self._to_agent.congested or self.inner.congested

    def pause_reading(self) -> None:
        self._is_paused = True
        self._to_client.pause()
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._to_client.resume()
        self._client_is_free()

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        self._close_paths()
        self.faults.continue_process()  # it could not exit otherwise
        if self._closing is not None:
            await asyncio.shield(self._closing)
        await self.inner.aclose()

    async def exit_error(self) -> Exception | None:
        return None if self._closing is not None else await self.inner.exit_error()

    def received(self, frames: Sequence[Frame]) -> None:
        """Pass on what the agent has sent."""
        self.send("to_client", frames)
        if self._to_client.congested:
            self.inner.pause_reading()

    def refused(self, limit: int, head: bytes) -> None:
        """Pass on that a frame was too large, after those before it."""
        self._to_client.end(partial(self._receiver.frame_refused, limit, head))

    def ended(self, error: Exception | None) -> None:
        """Pass on the end of the agent's output, after the frames that wait."""
        self._to_client.end(partial(self._end, error))

    def agent_reads(self) -> None:
        """Pass on that the agent reads again, unless a fault still holds frames back."""
        if not self._to_agent.congested:
            self._receiver.writable()

    def _to_be_delivered(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return the frames without those that are for neither side."""
        return frames

    def _write(self, frames: Sequence[Frame]) -> None:
        self.inner.write(self._to_be_delivered(frames))

    def _deliver(self, frames: Sequence[Frame]) -> None:
        frames = self._to_be_delivered(frames)
        if frames:
            self._receiver.frames_received(frames)

    def _end(self, error: Exception | None) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._receiver.eof_received(error)

    def _agent_is_free(self) -> None:
        if not self.inner.congested:
            self._receiver.writable()

    def _client_is_free(self) -> None:
        if not self._is_paused and not self._to_client.congested:
            self.inner.resume_reading()

    def _cut(self) -> None:
        """Close the connection to the agent now; the client gets an error."""
        if self._closing is None:
            self._close_paths()
            self._closing = asyncio.create_task(self.inner.aclose(), name="accord cut")
            # Not within a call of the receiver: it may be the one that writes.
            error = ConnectionLost("The inspector has cut the connection")
            asyncio.get_running_loop().call_soon(self._end, error)

    def _close_paths(self) -> None:
        self._to_agent.close()
        self._to_client.close()


class _Inner:
    """Receives what the inner transport reads."""

    def __init__(self, outer: FaultyTransport) -> None:
        self._outer = outer

    def frames_received(self, frames: Sequence[Frame]) -> None:
        self._outer.received(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._outer.refused(limit, head)

    def eof_received(self, error: Exception | None) -> None:
        self._outer.ended(error)

    def writable(self) -> None:
        self._outer.agent_reads()
