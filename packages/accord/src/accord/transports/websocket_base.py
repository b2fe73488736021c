"""The transport over a WebSocket connection, of clients and of servers."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence

from accord.errors import ConnectionClosed, TransportError
from accord.transports.base import Frame, NullReceiver, Receiver, Transport
from accord.transports.remote_address import PING_S, REMOTE_FRAME_BYTES
from accord.transports.websocket_frames import FrameConnection

CLOSE_S = 4.0  # for the peer to read what was written before `aclose`, and to close
NORMAL = 1000
INTERNAL = 1011


class SocketTransport(Transport):
    """Carries frames over a WebSocket connection; one text message is one frame.

    No task runs for a connection: frames are received and sent within calls of the event loop. A
    subclass opens the connection and names the error at its end. `close_code` and `close_reason`
    are sent by `aclose`. A ping interval of None means no pings, a ping timeout of None that they
    need no answer; both are read by `start`.
    """

    close_code: int = NORMAL
    close_reason: str = ""

    def __init__(
        self,
        *,
        frame_bytes: int = REMOTE_FRAME_BYTES,
        ping_interval_s: float | None = PING_S,
        ping_timeout_s: float | None = PING_S,
    ) -> None:
        self.frame_bytes = frame_bytes
        self.ping_interval_s = ping_interval_s
        self.ping_timeout_s = ping_timeout_s
        self._ping_timer: asyncio.TimerHandle | None = None
        self._receiver: Receiver = NullReceiver()
        self._connection: FrameConnection | None = None
        self._held: list[Frame] = []  # frames that arrived while reading was paused
        self._paused = False
        self._input_over = False
        self._ended = False
        self._closed: asyncio.Future[None] | None = None

    @abstractmethod
    async def _open(self) -> FrameConnection:
        """Connect; raise `TransportError` or `OSError` if that fails."""

    @abstractmethod
    def _error(self, connection: FrameConnection) -> Exception | None:
        """Return why the connection has ended, None if the peer has closed it in order."""

    async def start(self, receiver: Receiver) -> None:
        if self._closed is not None:
            raise ConnectionClosed("The transport was closed")
        try:
            connection = await self._open()
        except OSError as exc:
            raise TransportError(f"Cannot connect: {exc}") from exc
        self._connection = connection
        if self._closed is not None:
            await self._close(connection)
            raise ConnectionClosed("The transport was closed")
        self._receiver = receiver
        self._held += connection.listen(self)
        self._input_over = connection.has_ended
        asyncio.get_running_loop().call_soon(self._deliver_held)
        self._ping_later(self.ping_interval_s)

    def write(self, frames: Sequence[Frame]) -> None:
        if self._closed is None and self._connection is not None:
            self._connection.send_messages(frames)

    @property
    def congested(self) -> bool:
        return self._closed is None and self._connection is not None and self._connection.paused

    def pause_reading(self) -> None:
        if self._connection is not None and not self._paused:
            self._paused = True
            self._connection.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._connection is not None and self._paused:
            self._paused = False
            self._connection.transport.resume_reading()
            if self._held or self._input_over:
                asyncio.get_running_loop().call_soon(self._deliver_held)

    async def aclose(self) -> None:
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._receiver = NullReceiver()
        self._held.clear()
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        try:
            if self._connection is not None:
                await self._close(self._connection)
        finally:
            self._closed.set_result(None)

    async def _close(self, connection: FrameConnection) -> None:
        """Send what was written and the code, wait for the peer, and release the socket."""
        self._paused = False
        connection.transport.resume_reading()
        try:
            async with asyncio.timeout(CLOSE_S):
                connection.send_close(self.close_code, self.close_reason)
                await asyncio.shield(connection.connection_lost_waiter)
        except TimeoutError:
            pass
        finally:
            connection.transport.abort()
        await connection.connection_lost_waiter

    # The listener of the connection.

    def messages_received(self, messages: list[bytes]) -> None:
        if self._paused or self._held:
            self._held += messages
        else:
            self._receiver.frames_received(messages)

    def input_ended(self) -> None:
        self._input_over = True
        if not self._paused and not self._held:
            self._end()

    def writing_resumed(self) -> None:
        self._receiver.writable()

    def _deliver_held(self) -> None:
        if self._paused:
            return
        if self._held:
            held, self._held = self._held, []
            self._receiver.frames_received(held)
        if self._input_over and not self._paused:
            self._end()

    def _end(self) -> None:
        if not self._ended and self._connection is not None:
            self._ended = True
            self._receiver.eof_received(self._error(self._connection))

    # Pings (R-WS-14).

    def _ping_later(self, delay_s: float | None) -> None:
        if delay_s is not None:
            loop = asyncio.get_running_loop()
            self._ping_timer = loop.call_later(delay_s, self._ping)

    def _ping(self) -> None:
        connection = self._connection
        if connection is None or not connection.send_ping():
            return
        if self.ping_timeout_s is None:
            self._ping_later(self.ping_interval_s)
            return
        connection.has_heard = False
        loop = asyncio.get_running_loop()
        self._ping_timer = loop.call_later(self.ping_timeout_s, self._check_pong)

    def _check_pong(self) -> None:
        """Give the connection up if nothing has arrived, although we read."""
        connection = self._connection
        if connection is None or connection.has_ended:
            return
        if connection.has_heard or self._paused:
            interval_s, timeout_s = self.ping_interval_s or 0.0, self.ping_timeout_s or 0.0
            self._ping_later(max(interval_s - timeout_s, 0.0))
        else:
            connection.give_up(INTERNAL, "no answer to a ping")
