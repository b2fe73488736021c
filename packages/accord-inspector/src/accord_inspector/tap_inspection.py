"""Stands between an editor and an agent: passes everything through, and shows it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from accord.errors import ConnectionLost
from accord.transports.base import NullReceiver
from accord.transports.stdio import ThreadedWriter, take_stdio
from accord_inspector.byte_direction import ByteDirection
from accord_inspector.byte_pipes import BytePipe, ByteProcess
from accord_inspector.faults_process import suspender
from accord_inspector.json_http import ApiError
from accord_inspector.live_inspection import LiveInspection
from accord_inspector.passed_bytes import PassedBytes
from accord_inspector.sent_by_hand import is_request_by_hand
from accord_trace.records import Direction

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
