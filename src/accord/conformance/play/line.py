"""A line to the program under test: raw messages both ways, all of it watched by an observer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from accord import jsontext
from accord.conformance.frame import Frame, Side, other
from accord.conformance.message import Call, Note, RawMessage, read
from accord.conformance.observer import Observer
from accord.transports.base import Frame as Bytes
from accord.transports.base import Transport

__all__ = ("Line", "NoSession", "Serve", "Silence")

# Gets what the peer asks for, and answers with `answer` or `refuse`, at once, later or never.
Serve: TypeAlias = Callable[[Call], None]

ANSWER_S = 10.0


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
    program that has just been started is still loading.
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
        self.serve: Serve = lambda call: self.refuse(call, -32601, "Method not found")
        self.heard: Callable[[Note], None] = lambda _: None
        self.answer_s = answer_s
        self._start_s = start_s
        self._transport = transport
        self._began = time.monotonic()
        self._last_id = 0
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
        self.observer.receive(self.side, frame, self._now())
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
        await self.until(
            lambda: call.reply is not None, f"answer to {call.method}", within_s=within_s
        )

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
        return max(self.answer_s, self._start_s) if silent else self.answer_s

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
        self.observer.receive(other(self.side), text.encode(), self._now())
        self._news.set()

    def _received(self, text: bytes) -> None:
        peer: Side = other(self.side)
        self.observer.receive(peer, text, self._now())
        match read(Frame(0, 0.0, peer, text)):
            case RawMessage(fields=fields) as raw if not raw.is_reply:
                if "id" in fields:
                    if (call := self.observer.talk.find(peer, fields["id"])) is not None:
                        self.calls.append(call)
                        self.serve(call)
                else:
                    params = fields.get("params")
                    frame = self.observer.talk.frames[-1]
                    params = params if jsontext.is_object(params) else {}
                    note = Note(frame, peer, fields["method"], params)
                    self.notes.append(note)
                    self.heard(note)
            case _:
                pass

    def _now(self) -> float:
        return time.monotonic() - self._began
