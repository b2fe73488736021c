"""A line to the program under test: raw messages both ways, all of it watched by an observer."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from accord.text import lenient_json
from accord.transports.base import Frame as Bytes
from accord.transports.base import Transport
from accord_conformance.judges.observer import Observer
from accord_conformance.traffic.frame import Frame, Side, other
from accord_conformance.traffic.message import Call, Note, RawMessage, read

__all__ = ("Line", "NoSession", "Serve", "Silence")

# Gets what the peer asks for, and answers with `answer` or `refuse`, at once, later or never.
Serve: TypeAlias = Callable[[Call], None]

ANSWER_S = 10.0
_LAST = 5  # frames to show of what a peer got before it went away
_MOMENT_S = 0.5  # for what is answered at once, if at all
_LEAST_S = 3.0  # for an answer of a peer that has left another request without one
_SLOWER = 10  # times as long as its slowest answer


class Silence(Exception):
    """What was waited for did not come in time, or the peer hung up before."""


class NoSession(Silence):
    """A request for a session got no answer."""


class Line:
    """One connection, of which this program plays the `side`.

    Nothing is checked or mended on the way: `send` takes any bytes. Requests of the peer go to
    `serve`, its notifications to `heard`. The observer judges the peer alone: this program breaks
    rules on purpose.

    An answer may take `answer_s` seconds, and before the peer has said anything also `start_s`: a
    program that has just been started is still loading. Once a request got no answer, the others
    get less time, by how fast the peer has answered before.

    `faults` has the tracebacks of errors in the kit, which say nothing about the peer.
    """

    def __init__(
        self,
        transport: Transport,
        side: Side,
        *,
        answer_s: float = ANSWER_S,
        start_s: float = 0.0,
    ) -> None:
        self.side: Side = side
        self.observer = Observer(only=other(side))
        self.calls: list[Call] = []  # of the peer
        self.notes: list[Note] = []  # of the peer
        self.noise: list[str] = []  # lines of the peer that are no JSON
        self.hung_up = False
        self.lost: Exception | None = None
        self.faults: list[str] = []
        self.serve: Serve = lambda call: self.refuse(call, -32601, "Method not found")
        self.heard: Callable[[Note], None] = lambda _: None
        self.answer_s = answer_s
        self._start_s = start_s
        self._transport = transport
        self._began = time.monotonic()
        self._last_id = 0
        self._slowest_s = 0.0  # of the answers that were waited for
        self._silences = 0
        self._news = asyncio.Event()

    async def open(self) -> None:
        """Start; raise `TransportError`."""
        await self._transport.start(self)

    async def aclose(self) -> None:
        """Hang up, which ends a program that was started for this line."""
        self.observer.end(self.side)
        await self._transport.aclose()

    async def ended(self) -> Exception | None:
        """Say how the peer ended, after it hung up or `aclose`; in about a second at most."""
        return await self._transport.lost()

    # Sending.

    def send(self, frame: bytes) -> Frame:
        """Send a frame as it is; return it as reports show it."""
        self._observe(self.side, frame)
        self._transport.write([frame])
        return self.observer.talk.frames[-1]

    def message(self, **fields: Any) -> Frame:
        """Send a message with these fields."""
        return self.send(msgspec.json.encode({"jsonrpc": "2.0", **fields}))

    def note(self, method: str, params: Any = None) -> Frame:
        """Send a notification."""
        return self.message(method=method, **({} if params is None else {"params": params}))

    def ask(self, method: str, params: Any = None, *, ident: Any = None) -> Call:
        """Send a request; the call has its `reply` once it came."""
        if ident is None:
            self._last_id += 1
            ident = self._last_id
        self.message(id=ident, method=method, **({} if params is None else {"params": params}))
        call = self.observer.talk.find(self.side, ident)
        assert call is not None
        return call

    def answer(self, call: Call, result: Any) -> None:
        """Answer a request of the peer."""
        self.message(id=call.id, result=result)

    def refuse(self, call: Call, code: int, message: str, data: Any = None) -> None:
        """Answer a request of the peer with an error."""
        error = {"code": code, "message": message}
        self.message(id=call.id, error=error if data is None else {**error, "data": data})

    # Waiting.

    async def call(self, method: str, params: Any = None, *, ident: Any = None) -> Call:
        """Send a request and return it answered; raise `Silence`."""
        call = self.ask(method, params, ident=ident)
        await self.reply(call)
        return call

    async def reply(self, call: Call, *, within_s: float | None = None) -> None:
        """Return when a request has been answered; raise `Silence`."""
        began = time.monotonic()
        try:
            await self.until(
                lambda: call.reply is not None, f"answer to {call.method}", within_s=within_s
            )
        except Silence:
            self._silences += 1
            raise
        self._slowest_s = max(self._slowest_s, time.monotonic() - began)

    async def soon(self, holds: Callable[[], bool], what: str) -> None:
        """Return when something holds that is owed at once; raise `Silence`.

        A request that is sent after it tells when the peer has read it: then only a moment is left.
        """
        began = time.monotonic()
        after = self.ask("_accord/settle", {})
        await self.until(lambda: holds() or after.reply is not None, what)
        if not holds():
            took_s = time.monotonic() - began
            await self.until(holds, what, within_s=min(self.answer_s, max(_MOMENT_S, 4 * took_s)))

    async def until(
        self, holds: Callable[[], bool], what: str, *, within_s: float | None = None
    ) -> None:
        """Return when something holds, which only a message can bring about; raise `Silence`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s() if within_s is None else within_s):
                while not holds():
                    if self.hung_up:
                        break
                    self._news.clear()
                    await self._news.wait()
        if not holds():
            raise Silence(f"no {what}" + (": the peer hung up" if self.hung_up else ""))

    def _patience_s(self) -> float:
        silent = not any(frame.sender != self.side for frame in self.observer.talk.frames)
        if silent:
            return max(self.answer_s, self._start_s)
        if self._silences:
            return min(self.answer_s, max(_LEAST_S, _SLOWER * self._slowest_s))
        return self.answer_s

    def last_sent(self) -> tuple[Frame, ...]:
        """Return what the peer got since it last said something, or last of all."""
        frames = self.observer.talk.frames
        since = max((frame.number for frame in frames if frame.sender != self.side), default=0)
        sent = [frame for frame in frames if frame.sender == self.side]
        return tuple([frame for frame in sent if frame.number > since][-_LAST:] or sent[-1:])

    async def settle(self) -> None:
        """Return when the peer has answered something harmless: what it was sent, it has read.

        For what must bring no answer. An agent refuses the method, which is all that it proves.
        """
        with suppress(Silence):
            await self.call("_accord/settle", {})

    # What the transport hears.

    def frames_received(self, frames: Sequence[Bytes]) -> None:
        for frame in frames:
            self._received(bytes(frame))
        self._news.set()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self.noise.append(f"a frame of more than {limit} bytes")
        self._news.set()

    def eof_received(self, error: Exception | None) -> None:
        self.hung_up = True
        self.lost = error
        self.observer.end(other(self.side))
        self._news.set()

    def writable(self) -> None:
        return

    def noise_received(self, text: str) -> None:
        """The peer wrote a line that is no JSON."""
        self.noise.append(text)
        self._observe(other(self.side), text.encode())
        self._news.set()

    def _observe(self, side: Side, text: bytes) -> None:
        self.observer.receive(side, text, self._now())

    def fault(self) -> None:
        """Record the exception that is being handled as an error in the kit."""
        self.faults.append(traceback.format_exc())

    def _received(self, text: bytes) -> None:
        try:
            self._dispatch(text)
        except Exception:  # noqa: BLE001  # nor a mistake of what serves the peer
            self.fault()

    def _dispatch(self, text: bytes) -> None:
        peer: Side = other(self.side)
        self._observe(peer, text)
        match read(Frame(0, 0.0, peer, text)):
            case RawMessage(fields=fields) as raw if not raw.is_reply:
                if "id" in fields:
                    if (call := self.observer.talk.find(peer, fields["id"])) is not None:
                        self.calls.append(call)
                        self._serve(call)
                else:
                    params = fields.get("params")
                    frame = self.observer.talk.frames[-1]
                    params = params if lenient_json.is_object(params) else {}
                    note = Note(frame, peer, fields["method"], params)
                    self.notes.append(note)
                    self.heard(note)
            case _:
                pass

    def _serve(self, call: Call) -> None:
        try:
            self.serve(call)
        except Exception:  # noqa: BLE001  # the peer is not left without an answer
            self.fault()
            if call.reply is None:
                self.refuse(call, -32603, "Error in the conformance kit")

    def _now(self) -> float:
        return time.monotonic() - self._began
