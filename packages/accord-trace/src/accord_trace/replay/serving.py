"""Connects a replayed agent with a client: over a transport, or in this process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from accord.transports.base import Frame, Receiver, Transport
from accord.transports.memory import MemoryTransport, pair
from accord_trace.reading import open_trace
from accord_trace.replay.agent import AgentReplay, Departure, ReplayReport
from accord_trace.replay.script import Script, read_scripts

_decode = msgspec.json.Decoder(ReplayReport).decode


class ReplayServer:
    """Serves a replay on a transport until the client, or the recorded agent, ends.

    Lines of the recorded agent that were not JSON are sent if `noise`: a process has a stdout for
    them, a connection in memory does not.
    """

    def __init__(self, replay: AgentReplay, transport: Transport, *, noise: bool) -> None:
        self._replay = replay
        self._transport = transport
        self._noise = noise
        self._timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Serve; close the transport at the end."""
        try:
            await self._transport.start(self)
            self._replay.start(self._now())
            self._pump()
            await self._ended.wait()
        finally:
            self._ended.set()
            if self._timer is not None:
                self._timer.cancel()
            await self._transport.aclose()

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._replay.receive(frame, self._now())
        self._pump()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        self.frames_received([head])

    def eof_received(self, error: Exception | None) -> None:
        self._ended.set()

    def writable(self) -> None:
        self._pump()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _pump(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._ended.is_set():
            return
        while not self._transport.congested and (frames := self._replay.take(self._now())):
            self._transport.write([one for one in frames if self._noise or _is_json(one)])
        if self._replay.is_ended:
            self._ended.set()
            return
        due = self._replay.next_due_s()
        if due is not None and not self._transport.congested:
            self._timer = asyncio.get_running_loop().call_at(due, self._pump)


class ReplayedAgent:
    """An agent that replays a recording, for tests of clients.

    Pass it to `accord.connect`, or start `command` from a client in any language. The first
    connection gets the first connection of the recording, and so on; after the last one it begins
    again. See `AgentReplay` for `speed` and `strict`. `folder` is for the reports of `command`.
    Raise `TraceError` if the recording cannot be read, or has no request of a client.
    """

    def __init__(
        self,
        recording: str | os.PathLike[str],
        *,
        speed: float = 0.0,
        strict: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.recording: Path = Path(recording)
        self._scripts = read_scripts(open_trace(self.recording).with_damaged())
        self._speed = speed
        self.strict: bool = strict
        self._folder = folder
        self._replays: list[AgentReplay] = []

    def __call__(self) -> Transport:
        """Return the client's end of a new connection: this object is a `TransportFactory`."""
        replay = AgentReplay(self._next_script(), speed=self._speed, strict=self.strict)
        self._replays.append(replay)
        client, agent = pair()
        return _ServedTransport(client, ReplayServer(replay, agent, noise=False))

    @property
    def command(self) -> list[str]:
        """The command that replays the recording on stdin and stdout."""
        words = [sys.executable, "-m", "accord", "trace", "replay", str(self.recording.absolute())]
        words += ["--speed", f"{self._speed:g}", *(["--strict"] if self.strict else [])]
        if self._folder is not None:
            words += ["--report", str(self._folder / "{pid}.replay.json")]
        return words

    @property
    def redacted(self) -> int:
        """The number of messages in which secrets were replaced, so that they differ."""
        return sum(script.redacted for script in self._scripts)

    @property
    def departures(self) -> list[Departure]:
        """Where clients have departed from the recording so far; empty if they have not.

        Those of a client that has started `command` are known after it has ended.
        """
        return self.report().departures

    def report(self) -> ReplayReport:
        """Return the departures of all connections, and what was not used."""
        reports = [replay.report() for replay in self._replays]
        if self._folder is not None:
            files = sorted(self._folder.glob("*.replay.json"))
            reports += [_decode(file.read_bytes()) for file in files]
        return ReplayReport.joined(reports)

    def assert_matched(self, *, completely: bool = False) -> None:
        """Raise `AssertionError` if a client has departed from the recording.

        With `completely`, also if a message of the recorded client was not sent.
        """
        report = self.report()
        if report.departures or (completely and (report.unused or not report.used)):
            name = self.recording.name
            lines = (f"The client departed from {name}:", *report.lines())
            raise AssertionError("\n  ".join(lines))

    def _next_script(self) -> Script:
        return self._scripts[len(self._replays) % len(self._scripts)]


class _ServedTransport(Transport):
    """The client's end of a connection, which runs the agent's end while it is open."""

    def __init__(self, inner: MemoryTransport, server: ReplayServer) -> None:
        self.frame_bytes = inner.frame_bytes
        self._inner = inner
        self._server = server
        self._serving: asyncio.Task[None] | None = None

    async def start(self, receiver: Receiver) -> None:
        await self._inner.start(receiver)
        self._serving = asyncio.create_task(self._server.run(), name="accord replay")

    def write(self, frames: Sequence[Frame]) -> None:
        self._inner.write(frames)

    @property
    def congested(self) -> bool:
        return self._inner.congested

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    async def aclose(self) -> None:
        await self._inner.aclose()
        if self._serving is not None:
            await asyncio.wait([self._serving])  # it ends with the connection


def _is_json(frame: bytes) -> bool:
    return frame.lstrip().startswith(b"{")
