"""Sends a stream of events as the response of a GET."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from accord.remote.asgi_types import Event, Receive, Send
from accord.remote.http_stream import EventStream
from accord.transports.base import Frame

STOPPED_S = 5.0  # a reader that takes nothing for so long can be replaced
_END_S = 1.0  # for the end of a response
_COMMENT = b":\n\n"  # R-HTTP-17, R-HTTP-40


class StreamReader:
    """The reader of a stream until the client leaves, the stream ends or another replaces it."""

    def __init__(
        self,
        stream: EventStream,
        receive: Receive,
        send: Send,
        *,
        keepalive_s: float,
        stall_s: float,
    ) -> None:
        self._stream = stream
        self._receive = receive
        self._asgi_send = send
        self._keepalive_s = keepalive_s
        self._stall_s = stall_s
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle
        self._sending_since: float | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._needs_comment = False
        self._quiet_since = self._loop.time()
        self._disconnected = False
        self._left = False
        self._cancelled = False

    async def run(self, start: Event) -> None:
        """Send the event that starts the response, then the frames of the stream."""
        self._task = asyncio.current_task()
        watching = asyncio.create_task(self._watch(), name="accord watch a reader")
        self._timer = self._loop.call_later(self._keepalive_s, self._keep_alive)
        try:
            await self._send(start)
            await self._send({"type": "http.response.body", "body": _COMMENT, "more_body": True})
            await self._send_all()
        except asyncio.CancelledError:
            if not self._cancelled:
                raise
        finally:
            self._timer.cancel()
            watching.cancel()
            self._stream.detach(self)
        await self._take_back_cancel()
        await asyncio.wait([watching])
        await self._end()

    async def _take_back_cancel(self) -> None:
        """Continue after `leave` has cancelled a `send`."""
        if self._cancelled and self._task is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # raises if the `send` had returned just before
            if self._task.uncancel():
                raise asyncio.CancelledError  # the server has cancelled this request, too

    def wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def leave(self) -> None:
        if self._left:
            return
        self._left = True
        if self._sending_since is not None and self._task is not None:
            self._cancelled = True
            self._task.cancel()
        self.wake()

    def has_stopped(self) -> bool:
        if self._left:
            return True
        since = self._sending_since
        return since is not None and self._loop.time() - since >= STOPPED_S

    async def _send_all(self) -> None:
        stream = self._stream
        while not self._left:
            if taken := stream.take():
                body = events_of(taken)
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
                # Servers report that a client is gone to `receive` only.
                await asyncio.sleep(0)
                if not self._left:
                    stream.count_sent()
            elif stream.ended:
                return
            elif self._needs_comment:
                self._needs_comment = False
                await self._send(
                    {"type": "http.response.body", "body": _COMMENT, "more_body": True}
                )
            else:
                self._waiting = self._loop.create_future()
                try:
                    await self._waiting
                finally:
                    self._waiting = None

    async def _send(self, event: Event) -> None:
        self._sending_since = self._loop.time()
        try:
            await self._asgi_send(event)
        except Exception:  # noqa: BLE001  # servers raise what they like when a client is gone
            self._left = self._disconnected = True
        finally:
            self._sending_since = None
            self._quiet_since = self._loop.time()

    async def _end(self) -> None:
        """End the response in order, if the client still reads it."""
        if not self._disconnected:
            with suppress(TimeoutError, Exception):
                async with asyncio.timeout(_END_S):
                    await self._asgi_send(
                        {"type": "http.response.body", "body": b"", "more_body": False}
                    )

    async def _watch(self) -> None:
        """Leave when the client disconnects."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._disconnected = True
        self.leave()

    def _keep_alive(self) -> None:
        """Send a comment if nothing was sent in the last interval; leave if the client stalls."""
        since = self._sending_since
        if since is not None and self._loop.time() - since >= self._stall_s:
            self.leave()
            return
        left = self._quiet_since + self._keepalive_s - self._loop.time()
        if left <= 0:
            self._needs_comment = True
            self.wake()
            left = self._keepalive_s
        self._timer = self._loop.call_later(left, self._keep_alive)


def events_of(frames: Sequence[Frame]) -> bytes:
    """Return the events of frames (R-HTTP-28); line breaks in a frame are white space."""
    body = b"data: " + b"\n\ndata: ".join(frames) + b"\n\n"
    if b"\r" in body or body.count(b"\n") != 2 * len(frames):
        frames = [bytes(frame).translate(_WITHOUT_BREAKS) for frame in frames]
        body = b"data: " + b"\n\ndata: ".join(frames) + b"\n\n"
    return body


_WITHOUT_BREAKS = bytes.maketrans(b"\r\n", b"  ")
