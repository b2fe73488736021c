"""A connection of a server, watched: its turns, its traffic, and when it is idle."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from accord.remote.first_message import FirstMessage
from accord.remote.network_transport import (
    GOING_AWAY,
    INTERNAL,
    NORMAL,
    PROTOCOL_ERROR,
    NetworkTransport,
)
from accord.remote.running_turns import RunningTurns, Turn, prompt_of
from accord.text import lenient_json
from accord.transports.base import Frame, NullReceiver, Receiver, Transport

GOING_AWAY_TEXT = "the server is going away"
IDLE_TEXT = "no message and no running turn for a long time"
AGENT_ENDED_TEXT = "the agent has ended"
FIRST_TEXT = "the first message must be initialize"


class Traffic:
    """What has passed in one direction."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages: int = 0
        self.bytes: int = 0

    def add(self, frames: Sequence[Frame]) -> None:
        self.messages += len(frames)
        self.bytes += sum(map(len, frames))


class Observer(Protocol):
    """Called about the connections of a server; see `Monitor`."""

    def connection_opened(self, connection: MonitoredTransport) -> None: ...

    def connection_closed(self, connection: MonitoredTransport) -> None: ...

    def turn_started(self, connection: MonitoredTransport, turn: Turn) -> None: ...

    def turn_ended(self, connection: MonitoredTransport, turn: Turn) -> None: ...

    def stalled(self, connection: MonitoredTransport, duration_s: float) -> None: ...


class MonitoredTransport(Transport):
    """Passes frames between a client's connection and its agent, and watches them.

    Update frames are counted and not decoded. It is the receiver of the connection, and the
    transport of the agent, which is an object or a process.
    """

    def __init__(
        self,
        inner: NetworkTransport,
        observers: Sequence[Observer],
        *,
        id: str,  # noqa: A002  # the word of the protocol: Acp-Connection-Id
        kind: str,
        principal: str,
        idle_s: float = 0.0,
    ) -> None:
        self.frame_bytes: int = inner.frame_bytes
        self.id: str = id
        self.kind: str = kind
        self.principal: str = principal
        self.received: Traffic = Traffic()
        self.sent: Traffic = Traffic()
        self.turns: int = 0  # started
        self.opened_at: float = asyncio.get_running_loop().time()
        self._inner = inner
        self._observers = observers
        self._receiver: Receiver = NullReceiver()
        self._first = FirstMessage() if kind == "websocket" else None
        self._running = RunningTurns(self._turn_started, self._turn_ended)
        self._idle_s = idle_s
        self._active_at = self.opened_at
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stalled_at: float | None = None
        self._draining = False
        self._has_ended = False
        self.ended_by: str = "agent"  # or "client" or "server"
        self._closing: asyncio.Task[None] | None = None

    @property
    def running_turns(self) -> int:
        """The number of turns that are running."""
        return len(self._running)

    @property
    def close_code(self) -> int:
        """The code with which the server closes the connection, or has closed it."""
        return self._inner.close_code

    @property
    def age_s(self) -> float:
        """The time since the connection was opened."""
        return asyncio.get_running_loop().time() - self.opened_at

    @property
    def unsent_bytes(self) -> int:
        """The bytes that wait for the client to read."""
        return self._inner.unsent_bytes

    # The transport of the agent.

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._wait_until_idle()
        await self._inner.start(self)

    def write(self, frames: Sequence[Frame]) -> None:
        self.sent.add(frames)
        if not self._has_ended:  # what the client does not receive has ended no turn
            self._running.from_agent(frames)
        self._inner.write(frames)
        self._note_activity()
        if self._stalled_at is None and self._inner.congested:
            self._stalled_at = self._active_at

    @property
    def congested(self) -> bool:
        return self._inner.congested

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        self._stop_timer()
        if not self._has_ended:  # neither by the client nor by the server
            self._has_ended = True
            if self._inner.close_code == NORMAL:
                self._inner.close_code, self._inner.close_reason = INTERNAL, AGENT_ENDED_TEXT
            for request_id in self._running.initializing:
                self._answer(request_id, "The agent could not be started", "agent")
        await self._inner.aclose()
        if self._closing is not None:
            await self._closing

    async def exit_error(self) -> Exception | None:
        return await self._inner.exit_error()

    # The receiver of the client's frames.

    def frames_received(self, frames: Sequence[Frame]) -> None:
        if self._has_ended:
            return
        self.received.add(frames)
        self._note_activity()
        if self._first is not None:
            frames = self._checked(self._first, frames)
        if self._draining:
            frames = [frame for frame in frames if not self._refuse_prompt(frame)]
        for frame in frames:
            self._running.from_client(frame)
        if frames:
            self._receiver.frames_received(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self._receiver.frame_refused(limit, head)

    def eof_received(self, error: Exception | None) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self.ended_by = "client"
        self._stop_timer()
        self._end_stall()
        self._receiver.eof_received(error)

    def writable(self) -> None:
        self._end_stall()
        self._receiver.writable()

    # The end.

    def drain(self) -> None:
        """Refuse new turns, and close the connection once none is running."""
        self._draining = True
        self._end_if_drained()

    def end(self, code: int, reason: str) -> None:
        """Close the connection with a code and a reason; its agent sees the end of input."""
        if self._has_ended:
            return
        self._inner.close_code = code
        self._inner.close_reason = reason
        self.eof_received(None)
        self.ended_by = "server"
        self._closing = asyncio.create_task(self._inner.aclose(), name="accord close")

    def closed(self) -> None:
        """Report the turns that the end of the connection has ended."""
        self._stop_timer()
        self._end_stall()
        self._running.end_all()

    def _end_if_drained(self) -> None:
        if self._draining and not self.running_turns:
            self.end(GOING_AWAY, GOING_AWAY_TEXT)

    def _refuse_prompt(self, frame: Frame) -> bool:
        """Answer a prompt with an error; return False for another message."""
        prompt = prompt_of(frame) if b"/prompt" in frame else None
        if prompt is None:
            return False
        text = "The server is going away and starts no more turns: connect again"
        self._answer(prompt[0], text, "going_away")
        return True

    def _checked(self, first: FirstMessage, frames: Sequence[Frame]) -> list[Frame]:
        """Return the frames that the agent receives."""
        passed: list[Frame] = []
        running = self._running
        for frame in frames:
            may_initialize = not running.initialized and not running.initializing
            match first.verdict(frame, may_initialize=may_initialize):
                case "pass":
                    passed.append(frame)
                case "drop":
                    pass
                case "close":
                    loop = asyncio.get_running_loop()
                    loop.call_soon(self.end, PROTOCOL_ERROR, FIRST_TEXT)
                    break
                case bytes() as answer:
                    self._send(answer)
        return passed

    def _answer(self, request_id: Any, text: str, kind: str) -> None:
        error = {"code": -32603, "message": text, "data": {"kind": kind}}
        self._send(lenient_json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}))

    def _send(self, frame: Frame) -> None:
        self.sent.add([frame])
        self._inner.write([frame])

    # Turns, traffic and time.

    def _turn_started(self, turn: Turn) -> None:
        self.turns += 1
        for observer in self._observers:
            observer.turn_started(self, turn)

    def _turn_ended(self, turn: Turn) -> None:
        for observer in self._observers:
            observer.turn_ended(self, turn)
        if self._draining and not self._has_ended:
            asyncio.get_running_loop().call_soon(self._end_if_drained)

    def _note_activity(self) -> None:
        self._active_at = asyncio.get_running_loop().time()

    def _end_stall(self) -> None:
        if self._stalled_at is not None:
            duration_s = asyncio.get_running_loop().time() - self._stalled_at
            self._stalled_at = None
            for observer in self._observers:
                observer.stalled(self, duration_s)

    def _wait_until_idle(self) -> None:
        """Check later whether the connection is idle: there is no timer for each message."""
        if self._idle_s <= 0 or self._has_ended:
            return
        loop = asyncio.get_running_loop()
        left_s = self._active_at + self._idle_s - loop.time()
        if self.running_turns:
            left_s = self._idle_s
        elif left_s <= 0:
            self.end(1000, IDLE_TEXT)
            return
        self._idle_timer = loop.call_later(left_s, self._wait_until_idle)

    def _stop_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
