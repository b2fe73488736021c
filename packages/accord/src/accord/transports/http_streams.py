"""The event streams of a connection by streamable HTTP: one for it, and one for each session."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Literal, Protocol, TypeAlias

from accord.errors import ConnectionLost, TransportError
from accord.text.excerpt import excerpt, one_line
from accord.transports.base import Frame
from accord.transports.http_client import HttpClient, HttpResponse
from accord.transports.http_status import advice_for, redirect_error
from accord.transports.sse import EventReader

log: logging.Logger = logging.getLogger("accord.transports.http")

REOPEN_S = 0.2  # before the first reopening, doubled for each further one (R-HTTP-41)
REOPENINGS = 3  # in a row, without an event
STABLE_S = 0.5  # a stream that stays open this long counts as reopened
CONFLICT_S = 20.0  # the server may not have noticed the end of the old reader
SILENCE_S = 75.0  # five comments of a server that sends one every 15 seconds
_ERROR_BYTES = 8 * 1024

# open: frames may come. absent: the server does not know the session yet. ended: the next message
# opens it again. failed: its session is unusable until it is loaded or resumed (R-HTTP-29).
State: TypeAlias = Literal["opening", "open", "absent", "ended", "failed"]


class StreamOwner(Protocol):
    """What the streams need of their connection."""

    frame_bytes: int
    may_read: asyncio.Event

    def request_headers(self, session: str | None) -> dict[str, str]:
        """Return the headers of a request in a session."""
        ...

    def stream_received(self, session: str | None, frames: Sequence[Frame]) -> None:
        """Called with the frames of one read."""
        ...

    def stream_refused(self, head: bytes) -> None:
        """Called when an event over the limit was dropped."""
        ...

    def stream_cut(self, session: str | None, why: str) -> None:
        """Called after an abnormal end: messages may be lost (R-HTTP-42)."""
        ...

    def stream_failed(self, session: str | None, why: str, status: int | None) -> None:
        """Called when a stream does not continue."""
        ...

    def connection_refused(self, error: TransportError) -> None:
        """Called when the server no longer serves the connection."""
        ...


class EventStream:
    """One stream, which is opened again when it ends."""

    def __init__(self, session: str | None) -> None:
        self.session = session
        self.state: State = "opening"
        self.why = ""  # it has failed
        self.status: int | None = None  # with which it has failed
        self.settled: asyncio.Event = asyncio.Event()  # the state is not "opening"
        self.last_frame_at: float = 0.0
        self.last_id: str | None = None
        self.task: asyncio.Task[None] | None = None

    def settle(self, state: State) -> None:
        self.state = state
        self.settled.set()


class _Refused(Exception):
    """The server does not open a stream."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class EventStreams:
    """Opens, reads and reopens the streams of one connection."""

    def __init__(self, client: HttpClient, owner: StreamOwner, url: str) -> None:
        self._client = client
        self._owner = owner
        self._url = url
        self._streams: dict[str | None, EventStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def find(self, session: str | None) -> EventStream | None:
        """Return the stream of a session, None if it was never opened."""
        return self._streams.get(session)

    def open(self, session: str | None, *, again: bool = False) -> EventStream:
        """Open a stream unless it is open; `again` also one that has failed."""
        stream = self._streams.get(session)
        if stream is not None and (
            stream.state in ("opening", "open") or (stream.state == "failed" and not again)
        ):
            return stream
        last_id = None if stream is None else stream.last_id
        stream = self._streams[session] = EventStream(session)
        stream.last_id = last_id
        stream.task = asyncio.create_task(self._run(stream), name=f"accord stream {session}")
        self._tasks.add(stream.task)
        stream.task.add_done_callback(self._tasks.discard)
        return stream

    def close(self, session: str | None) -> None:
        """Stop reading the stream of a session that has ended."""
        stream = self._streams.pop(session, None)
        if stream is not None and stream.task is not None:
            stream.task.cancel()
            stream.settle("ended")

    def fail(self, session: str, why: str, status: int) -> None:
        """Stop reading the stream of a session that the server refuses (R-HTTP-29)."""
        self.close(session)
        stream = self._streams[session] = EventStream(session)
        stream.why, stream.status = why, status
        stream.settle("failed")

    async def aclose(self) -> None:
        """Stop reading all streams."""
        self._closed = True
        for stream in list(self._streams.values()):
            stream.settle("ended")
        self._streams.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, stream: EventStream) -> None:
        """Read a stream, and open it again when it ends, until it fails."""
        loop = asyncio.get_running_loop()
        failures = 0
        delay_s = REOPEN_S
        was_open = False
        conflict_until: float | None = None
        while True:
            began = loop.time()
            retry_s: float | None = None
            try:
                reader = EventReader(self._owner.frame_bytes, stream.last_id)
                async with self._opened(stream) as response:
                    began = loop.time()
                    was_open, conflict_until = True, None
                    received, cut = await self._read(stream, reader, response)
                retry_s = reader.retry_s
                if received or loop.time() - began >= STABLE_S:
                    failures, delay_s = 0, retry_s or REOPEN_S
                if cut is not None and stream.last_id is None:
                    self._owner.stream_cut(stream.session, str(cut))
                why: Exception = cut or ConnectionLost("the server has ended the event stream")
                status = None
            except _Refused as refused:
                status, why = refused.status, refused
                if status == 409:
                    conflict_until = conflict_until or loop.time() + CONFLICT_S
                    if loop.time() < conflict_until:
                        failures = 0
                elif status not in (429, 500, 502, 503, 504):
                    self._refuse(stream, refused, was_open=was_open)
                    return
            except TransportError as exc:  # the server cannot be reached
                status, why = None, exc
            failures += 1
            if failures > REOPENINGS or (conflict_until and loop.time() >= conflict_until):
                self._give_up(stream, f"{why}", status)
                return
            log.debug("= the stream of %s is opened again: %s", _name(stream), why)
            await asyncio.sleep((retry_s or delay_s) * random.uniform(0.75, 1.25))
            delay_s = min(2 * delay_s, 30.0)

    @asynccontextmanager
    async def _opened(self, stream: EventStream) -> AsyncGenerator[HttpResponse, None]:
        headers = self._owner.request_headers(stream.session)
        headers["Accept"] = "text/event-stream"
        headers["Cache-Control"] = "no-cache"
        if stream.last_id is not None:
            headers["Last-Event-ID"] = stream.last_id
        response = await self._client.send("GET", headers)
        try:
            if not response.is_success:
                raise await self._refusal(stream, response)
            if response.content_type != "text/event-stream":
                kind = excerpt(one_line(response.content_type)) or "no content type"
                why = f"{self._what(stream)}: expected an event stream, got {kind}"
                raise _Refused(response.status, why)
            stream.settle("open")
            yield response
        finally:
            await response.aclose()

    async def _read(
        self, stream: EventStream, reader: EventReader, response: HttpResponse
    ) -> tuple[bool, ConnectionLost | None]:
        """Read a response completely; return whether a frame came, and how it was cut off."""
        loop = asyncio.get_running_loop()
        owner = self._owner
        received = False
        try:
            async with asyncio.timeout(None) as silence, aclosing(response.chunks()) as chunks:
                async for chunk in chunks:
                    frames = reader.feed(chunk)
                    stream.last_id = reader.last_id
                    if reader.comments:
                        silence.reschedule(loop.time() + SILENCE_S)
                    if frames:
                        received = True
                        stream.last_frame_at = loop.time()
                        owner.stream_received(stream.session, frames)
                    while reader.refused:
                        received = True
                        owner.stream_refused(reader.refused.pop(0))
                    if not owner.may_read.is_set():
                        silence.reschedule(None)
                        await owner.may_read.wait()
        except ConnectionLost as exc:
            return received, exc
        except TimeoutError:
            return received, ConnectionLost(self._client.lost("the server is silent"))
        return received, None

    async def _refusal(self, stream: EventStream, response: HttpResponse) -> _Refused:
        status = response.status
        if 300 <= status < 400:
            return _Refused(status, redirect_error(self._url, response.header("Location")))
        text = f"{self._what(stream)} was refused with status {status}"
        return _Refused(status, text + advice_for(status, response.reason, _409=_TWO_READERS))

    def _refuse(self, stream: EventStream, refused: _Refused, *, was_open: bool) -> None:
        """End a stream that the server does not open."""
        status = refused.status
        if stream.session is None or status in (401, 410) or 300 <= status < 400:
            stream.settle("failed")
            self._owner.connection_refused(TransportError(str(refused)))
        elif status in (403, 404) and not was_open:
            stream.settle("absent")  # R-HTTP-37
            log.debug("= there is no stream of %s yet: status %d", _name(stream), status)
        else:
            self._give_up(stream, str(refused), status)

    def _give_up(self, stream: EventStream, why: str, status: int | None) -> None:
        if stream.session is None:
            stream.settle("failed")
            self._owner.connection_refused(ConnectionLost(why))
            return
        stream.why, stream.status = why, status
        stream.settle("ended" if status is None else "failed")
        self._owner.stream_failed(stream.session, why, status)

    def _what(self, stream: EventStream) -> str:
        if stream.session is None:
            return "The event stream of the connection"
        return f"The event stream of session {excerpt(one_line(stream.session), 60)}"


_TWO_READERS = "another client reads it"


def _name(stream: EventStream) -> str:
    return "the connection" if stream.session is None else excerpt(one_line(stream.session), 60)
