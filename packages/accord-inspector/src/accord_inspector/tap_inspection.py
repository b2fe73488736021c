"""Stands between an editor and an agent: passes everything through, and shows it.

Bytes pass unchanged, and are not read as lines for that. Their lines are recorded later, so that
recording does not delay the next bytes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeAlias

from accord.errors import ConnectionLost
from accord.jsonrpc.message import LineReader
from accord.transports.base import FRAME_BYTES, Frame, NullReceiver
from accord.transports.http import FLUSH_S
from accord.transports.process import ProcessTransport
from accord.transports.stdio import PipeTransport, ThreadedWriter, take_stdio
from accord_inspector.faults import FaultPath, Faults, suspender
from accord_inspector.inspected_transport import is_of_injected, is_request_by_hand
from accord_inspector.live_inspection import LiveInspection
from accord_terminal.conversation import ApiError
from accord_trace.recording import HopRecorder, Recording
from accord_trace.records import Direction

_PAUSE_S = 0.01  # messages of a dialogue are recorded together
_BYTES = 128 * 1024  # that are recorded at once

_Record: TypeAlias = Callable[[bytes, float], None]


class PassedBytes:
    """Keeps the order of both directions of a tap until it records them, after 10 ms or 128 KB."""

    def __init__(self, recording: Recording, written: Callable[[], None]) -> None:
        """`written` is called after the recording was written."""
        self._recording = recording
        self._written = written
        self._waiting: list[tuple[_Record, bytes, float]] = []
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, record: _Record, data: bytes) -> None:
        """Let `record` be called with bytes that were passed now, and with their time."""
        self._waiting.append((record, data, self._recording.now()))
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= _BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self.flush)

    def flush(self) -> None:
        """Record everything that was passed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for record, data, ts in waiting:
            record(data, ts)
        self.written()

    def written(self) -> None:
        """Write what was recorded, and tell it."""
        self._recording.flush()
        self._written()


OnData: TypeAlias = Callable[[bytes], None]


class BytePipe(PipeTransport):
    """A pair of file descriptors; `on_data` gets what is read."""

    def __init__(self, read_fd: int, write_fd: int, on_data: OnData) -> None:
        super().__init__(read_fd, write_fd)
        self._on_data = on_data

    async def end_output(self) -> None:
        """Send what waits, and close the output."""
        await self._close_writer(FLUSH_S)

    def _received(self, data: bytes) -> None:
        self._on_data(data)


class ByteProcess(ProcessTransport):
    """An agent's process; `on_data` gets what it writes to stdout."""

    def __init__(
        self,
        argv: Sequence[str],
        on_data: OnData,
        on_stderr: Callable[[str], None],
        *,
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        super().__init__(
            argv,
            cwd=None,
            env=env,
            frame_bytes=FRAME_BYTES,
            on_stdout_noise=None,
            on_stderr=on_stderr,
            stop_times_s=(2.0, 2.0, 2.0),
        )
        self._on_data = on_data

    async def end_output(self) -> None:
        """Send what waits, and close the agent's stdin."""
        await self._close_writer(FLUSH_S)

    def _received(self, data: bytes) -> None:
        if self._closed is None:
            self._on_data(data)


class _Source(Protocol):
    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Target(Protocol):
    @property
    def congested(self) -> bool: ...

    def write_bytes(self, data: bytes) -> None: ...


class ByteDirection:
    """Passes what one side writes to the other side, and records its lines after that.

    Bytes are passed as soon as they arrive, and recorded by `passed`, which both directions have.
    While a fault is on, or a response to a request that was sent by hand is expected, lines are
    passed whole; without faults their bytes are the same. `cut` is called when a fault ends the
    connection, `numbers` are those of the recording's rows.
    """

    def __init__(
        self,
        direction: Direction,
        source: _Source,
        target: _Target,
        hop: HopRecorder,
        faults: Faults,
        numbers: Iterator[int],
        passed: PassedBytes,
        *,
        cut: Callable[[], None],
    ) -> None:
        self.expected: int = 0  # responses to requests that were sent by hand
        self._direction: Direction = direction
        self._source = source
        self._target = target
        self._hop = hop
        self._numbers = numbers
        self._passed = passed
        self._path = FaultPath(
            faults, direction, self._deliver, cut=cut, on_free=self.resume_reading
        )
        self._lines = LineReader(FRAME_BYTES)
        self._held = bytearray()  # the beginning of a line that was not passed yet
        self._is_in_line = False  # whether the beginning of a line was passed
        self._waiting: list[bytes] = []  # sent by hand, after this line

    def data(self, data: bytes) -> None:
        """Pass bytes on."""
        if self._path.is_active or self.expected:
            self._pass_lines(data)
        else:
            self._pass_bytes(data)
        if self._is_congested:
            self._source.pause_reading()

    def resume_reading(self) -> None:
        """Read the source again, unless what was read still waits."""
        if not self._is_congested:
            self._source.resume_reading()

    def inject(self, frame: bytes) -> int:
        """Send a line by hand, as soon as the present line has ended; return its number."""
        number = self._record_by_hand(frame)
        if self._path.is_active and not self._is_in_line:
            self._path.pass_frames([frame], number)
        else:
            self._waiting.append(frame + b"\n")
            if not self._is_in_line:
                self._write_waiting()
        return number

    def inject_bytes(self, data: bytes) -> int | None:
        """Send bytes by hand now, as they are, past the faults; return their number."""
        number = self._record_by_hand(data) if data.strip() else None
        self._target.write_bytes(data)
        return number

    def end(self, reason: str = "") -> None:
        """Pass the last line if it has no line end, and record the end."""
        self._path.flush()
        self._target.write_bytes(bytes(self._held))
        self._held.clear()
        self._passed.flush()
        self._record(self._lines.finish())
        next(self._numbers)
        self._hop.end(self._direction, reason)
        self._passed.written()

    def _pass_bytes(self, data: bytes) -> None:
        if self._held:
            self._target.write_bytes(bytes(self._held))
            self._held.clear()
        if self._waiting and b"\n" in data:
            end = data.rindex(b"\n") + 1
            self._target.write_bytes(data[:end])
            self._write_waiting()
            rest = data[end:]
            if rest:
                self._target.write_bytes(rest)
        else:
            self._target.write_bytes(data)
        self._is_in_line = not data.endswith(b"\n")
        self._passed.add(self._record_passed, data)

    def _pass_lines(self, data: bytes) -> None:
        if self._is_in_line:
            end = data.find(b"\n") + 1 or len(data)
            self._pass_bytes(data[:end])
            data = data[end:]
            if not data:
                return
        if b"\n" in data:
            self._held = bytearray(data[data.rindex(b"\n") + 1 :])
        else:
            self._held += data
        self._passed.flush()
        frames = self._lines.feed(data)
        numbers = self._record(frames)
        self._passed.written()
        for frame, number in zip(frames, numbers, strict=True):
            if self.expected and is_of_injected(frame):
                self.expected -= 1
            else:
                self._path.pass_frames([frame], number)

    def _deliver(self, frames: Sequence[Frame]) -> None:
        self._target.write_bytes(b"\n".join((*frames, b"")))

    def _write_waiting(self) -> None:
        for line in self._waiting:
            self._target.write_bytes(line)
        self._waiting.clear()

    def _record_passed(self, data: bytes, ts: float) -> None:
        self._record(self._lines.feed(data), ts)

    def _record_by_hand(self, data: bytes) -> int:
        """Record what is sent by hand, after what was passed before; return its number."""
        self._passed.flush()
        number = next(self._numbers)
        self._hop.frames(self._direction, [data])
        self._passed.written()
        return number

    def _record(self, frames: Sequence[Frame], ts: float | None = None) -> list[int | None]:
        """Record frames of now, or of second `ts`; return their numbers, None for blank ones."""
        numbers = [next(self._numbers) if frame.strip() else None for frame in frames]
        recording = self._hop.recording
        at = recording.now() if ts is None else ts
        recording.queue([(self._hop, at, self._direction, frame) for frame in frames])
        refused, self._lines.refused = self._lines.refused, []
        for head in refused:
            next(self._numbers)
            self._hop.refused(self._direction, head)
        return numbers

    @property
    def _is_congested(self) -> bool:
        return self._target.congested or self._path.congested


_STDERR = 2
_FLUSH_S = 1.0
_OTHER: dict[Direction, Direction] = {"to_agent": "to_client", "to_client": "to_agent"}


class TapInspection(LiveInspection):
    """Runs an agent between this program's stdin and stdout; the editor is the client.

    The program ends with the agent, and with its exit status.
    """

    kind = "tap"

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        title: str,
        output: Path | None,
        redact: bool,
    ) -> None:
        super().__init__(command=command, title=title, output=output, redact=redact)
        self._directions: dict[Direction, ByteDirection] = {}
        self._got_signal = False
        self._editor: BytePipe | None = None
        self._stderr: ThreadedWriter | None = None
        self._agent = ByteProcess(command, self._from_agent, self._add_stderr, env=env)
        self._agent_ended = asyncio.Event()
        self._passed: PassedBytes | None = None

    async def start(self) -> None:
        """Start the agent, and pass bytes between it and the editor."""
        self.begin()
        loop = asyncio.get_running_loop()
        stderr = os.dup(_STDERR)
        self._stderr = ThreadedWriter(loop, stderr, lambda: None, lambda _: None)
        self._editor = editor = BytePipe(*take_stdio(), self._from_editor)
        hop, agent = self.recording.hop(), self._agent
        self._passed = passed = PassedBytes(self.recording, self.messages().written)

        def direction(name: Direction, source: BytePipe | ByteProcess) -> ByteDirection:
            target = agent if source is editor else editor
            return ByteDirection(
                name,
                source,
                target,
                hop,
                self.faults,
                self.numbers,
                passed,
                cut=self._cut,
            )

        to_agent, to_client = direction("to_agent", editor), direction("to_client", agent)
        self._directions = {"to_agent": to_agent, "to_client": to_client}
        await agent.start(_End(self._end_of_agent, to_agent.resume_reading))
        self.pid = agent.pid
        if agent.pid is not None:
            self.faults.suspend = suspender(agent.pid)
        await editor.start(_End(self._end_of_editor, to_client.resume_reading))
        self.set_state("running")
        self.spawn(self._wait())

    async def stop(self) -> None:
        """Stop the agent."""
        self.faults.continue_process()  # it could not exit otherwise
        await self._agent.aclose()
        if self._editor is not None:
            await self._editor.aclose()
        if self._stderr is not None:
            await self._stderr.aclose(_FLUSH_S)
        if self._passed is not None:
            self._passed.flush()

    def pass_signal(self, number: int) -> bool:
        """Pass the first signal to the agent, which decides what it does."""
        if self._agent.pid is None or self._agent_ended.is_set() or self._got_signal:
            return False
        self._got_signal = True
        with suppress(OSError):
            os.kill(self._agent.pid, number)
        return True

    def inject(self, direction: Direction, frames: Sequence[bytes]) -> int | None:
        if self.state != "running":
            raise ApiError(409, "The agent is not running")
        first: int | None = None
        for frame in frames:
            if frame.strip():
                if is_request_by_hand(frame):
                    self._directions[_OTHER[direction]].expected += 1
                number = self._directions[direction].inject(frame)
                first = number if first is None else first
        return first

    def inject_bytes(self, data: bytes) -> int | None:
        if self.state != "running":
            raise ApiError(409, "The agent is not running")
        return self._directions["to_agent"].inject_bytes(data)

    async def _wait(self) -> None:
        """End the program when the agent has ended."""
        await self._agent_ended.wait()
        error = await self._agent.exit_error()
        self._directions["to_client"].end("" if error is None else str(error))
        status = error.exit_status if isinstance(error, ConnectionLost) else None
        self.exit_status = 1 if status is None else status if status >= 0 else 128 - status
        self.set_ended(error, "ended")
        if self._editor is not None:
            await self._editor.end_output()
        self.finished.set()

    def _cut(self) -> None:
        self.spawn(self._agent.aclose())

    def _from_editor(self, data: bytes) -> None:
        self._directions["to_agent"].data(data)

    def _from_agent(self, data: bytes) -> None:
        self._directions["to_client"].data(data)

    def _end_of_agent(self, _error: Exception | None) -> None:
        self._agent_ended.set()

    def _end_of_editor(self, error: Exception | None) -> None:
        self._directions["to_agent"].end("" if error is None else str(error))
        # An editor that does not read is gone: the agent gets no signal for it, as in a pipe.
        self.spawn(self._agent.end_output() if error is None else self._agent.aclose())

    def _add_stderr(self, line: str) -> None:
        if self._stderr is not None:
            self._stderr.write(f"{line}\n".encode())
        self.add_stderr(line)


class _End(NullReceiver):
    """Receives the end of one side, and that it can be written to again."""

    def __init__(
        self, ended: Callable[[Exception | None], None], writable: Callable[[], None]
    ) -> None:
        self._ended = ended
        self._writable = writable

    def eof_received(self, error: Exception | None) -> None:
        self._ended(error)

    def writable(self) -> None:
        self._writable()
