"""The transport of clients: an agent as a subprocess, which never outlives its owner."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from accord.errors import ConnectionClosed, ConnectionLost, StartError, TransportError
from accord.rules.quirks import tolerates
from accord.text import lenient_json
from accord.text.excerpt import excerpt
from accord.transports.base import FRAME_BYTES, Frame, Receiver
from accord.transports.command_line import (
    argv_of,
    batch_line,
    environment,
    find_program,
    why_not_started,
)
from accord.transports.pipes import PipeTransport
from accord.transports.process_group import CREATION_FLAGS, ProcessGroup, StopTimes, exit_text
from accord.transports.process_output import LastLines, ProcessOutput
from accord.transports.start_guardian import Mark

__all__ = ("ProcessTransport", "argv_of", "process")

log: logging.Logger = logging.getLogger("accord.transports")

EXIT_S = 1.0  # between the end of the output and the exit of the process
_LEFT_OPEN_S = 0.25  # for output that other processes hold open after the process has exited
NOISE_LINES = 10_000  # from a program that sends no message: it is not an agent
_OBJECT = ord("{")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def process(
    *argv: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    frame_bytes: int = FRAME_BYTES,
    on_stdout_noise: Callable[[str], None] | None = None,
    noise_limit: int | None = NOISE_LINES,
    on_stderr: Callable[[str], None] | None = None,
    on_output: Callable[[int], None] | None = None,
    stop_times_s: StopTimes = (2.0, 2.0, 2.0),
    stops_descendants: bool = False,
) -> Callable[[], ProcessTransport]:
    """Return a factory that starts this command for each connection; see `argv_of` for strings.

    `env` changes the inherited environment; the value None removes a variable. Lines on the
    agent's stdout that are not JSON go to `on_stdout_noise`, the lines of its stderr to
    `on_stderr`. After `noise_limit` such lines without a message, the connection ends with
    `ConnectionLost`. `on_output` gets the number of bytes of each read from either.
    `stop_times_s` is the time for it to exit after its stdin is closed, after SIGTERM, and after
    SIGKILL. Processes of its group are stopped with it; with `stops_descendants`, on Linux also
    those that have left the group.
    """
    words = argv_of(argv)

    def make() -> ProcessTransport:
        return ProcessTransport(
            words,
            cwd=None if cwd is None else os.fspath(cwd),
            env=env,
            frame_bytes=frame_bytes,
            on_stdout_noise=on_stdout_noise,
            noise_limit=noise_limit,
            on_stderr=on_stderr,
            on_output=on_output,
            stop_times_s=stop_times_s,
            stops_descendants=stops_descendants,
        )

    return make


class ProcessTransport(PipeTransport):
    """Communicates with a subprocess over its stdin and stdout; made by `process`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str | None] | None,
        frame_bytes: int,
        on_stdout_noise: Callable[[str], None] | None,
        on_stderr: Callable[[str], None] | None,
        stop_times_s: StopTimes,
        noise_limit: int | None = None,
        on_output: Callable[[int], None] | None = None,
        stops_descendants: bool = False,
    ) -> None:
        super().__init__(-1, -1, frame_bytes=frame_bytes)
        self._fds.clear()
        self.noise_lines: int = 0
        self.pid: int | None = None
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._noise_limit = noise_limit
        self._no_agent: ConnectionLost | None = None
        self._on_output = on_output
        self._output = ProcessOutput(on_stderr, on_stdout_noise, on_output)
        self.stop_times_s = stop_times_s  # read by `aclose`
        self._stops_descendants = stops_descendants
        self._group: ProcessGroup | None = None
        self._leftovers: asyncio.TimerHandle | None = None

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB of stderr, as the process wrote them."""
        return self._output.stderr_tail

    def last_lines(self) -> LastLines:
        """Return the last lines of stderr and stdout, cleaned and without secrets."""
        return self._output.last_lines()

    @property
    def stderr_bytes(self) -> int:
        """How many bytes of stderr were read."""
        return self._output.stderr_bytes

    async def lines_after(self, stderr_bytes: int) -> LastLines:
        """Return the last lines of stderr after its first bytes; wait a short time for more."""
        return await self._output.lines_after(stderr_bytes)

    async def explain(self, error: BaseException) -> None:
        await self._output.explain(error)

    def spawn(self) -> None:
        """Start the process early; otherwise `start` does it.

        Raise `StartError` if it cannot be started.
        """
        if self._closed is not None:
            raise ConnectionClosed("The transport was closed")
        loop = asyncio.get_running_loop()
        mark = Mark("c" if self._stops_descendants else "a")
        popen, error_fd = self._spawn(mark)
        # From here on the process has an owner.
        self._group = ProcessGroup(loop, popen, mark)
        if self._stops_descendants:
            self._group.guard_command(self.stop_times_s)
        else:
            self._group.guard_agent(self.stop_times_s)
        self.pid = popen.pid
        log.debug("= process %d started: %s", popen.pid, self._argv[0])
        try:
            self._output.begin(loop, error_fd)
        except OSError as exc:
            os.close(error_fd)
            raise StartError(f"Cannot watch {self._argv[0]}: {exc}") from exc

    async def start(self, receiver: Receiver) -> None:
        if self._closed is not None:
            raise ConnectionClosed("The transport was closed")
        try:
            if self._group is None:
                self.spawn()
            assert self._group is not None
            self._begin(_NonJsonFilter(receiver, self._noise, self._output))
        except (OSError, TransportError) as exc:
            await self.aclose()
            if isinstance(exc, StartError):
                raise
            raise StartError(f"Cannot watch {self._argv[0]}: {exc}") from exc
        self._group.exited.add_done_callback(self._exited)

    def _spawn(self, mark: Mark) -> tuple[subprocess.Popen[bytes], int]:
        name, *args = self._argv
        env = self._output.env = environment(self._env)
        program = find_program(name, self._cwd, env)
        command: str | list[str] = [name, *args]
        if sys.platform == "win32" and program.lower().endswith((".cmd", ".bat")):
            interpreter = os.environ.get("COMSPEC", r"C:\Windows\System32\cmd.exe")
            command = batch_line(interpreter, program, args)
            program = interpreter
        ours: list[int] = []
        theirs: list[int] = []
        try:
            their_in, self._write_fd = _pipe(theirs, ours)
            self._read_fd, their_out = _pipe(ours, theirs)
            error_fd, their_err = _pipe(ours, theirs)
            popen = subprocess.Popen(
                command,
                executable=program,
                stdin=their_in,
                stdout=their_out,
                stderr=their_err,
                cwd=self._cwd,
                env=mark.environment(env),
                start_new_session=True,
                creationflags=CREATION_FLAGS,
            )
        except (OSError, ValueError) as exc:
            for fd in ours:
                os.close(fd)
            raise why_not_started(name, program, exc) from exc
        finally:
            for fd in theirs:
                os.close(fd)
        self._fds = {self._read_fd, self._write_fd}
        return popen, error_fd

    async def exit_error(self) -> Exception | None:
        """Return how the process ended; wait for it at most a second."""
        group = self._group
        if group is None or self._no_agent is not None:
            return self._no_agent
        await asyncio.wait([group.exited], timeout=EXIT_S)
        name = self._argv[0]
        if not group.exited.done():
            return self._loss(f"{name} disconnected but is still running")
        await self._output.wait_until_read(EXIT_S)
        status = group.exited.result()
        message = f"{name} {exit_text(status)}"
        if last := self._output.last_lines().last:
            message += f": {last[:200]}"
        return self._loss(message, status)

    def _loss(self, message: str, exit_status: int | None = None) -> ConnectionLost:
        lines = self._output.last_lines()
        lost = ConnectionLost(message, exit_status=exit_status, stderr="\n".join(lines.stderr))
        self._output.add_to(lost)
        return lost

    @tolerates("stays-after-stdin")
    async def _close(self) -> None:
        # Its output is still read: a process that cannot write may not exit.
        self._feed = _drop
        self.resume_reading()
        loop = asyncio.get_running_loop()
        leave_s, terminate_s, kill_s = self.stop_times_s
        began = loop.time()
        if self._reader is None:  # spawned, but never started
            await self._close_reader()
        try:
            await self._close_writer(leave_s)
            if self._group is not None:
                left_s = max(leave_s - (loop.time() - began), 0.0)
                await self._group.stop((left_s, terminate_s, kill_s))
            self._output.end_when_empty()
            await self._output.wait_until_read(EXIT_S)
        finally:
            if self._leftovers is not None:
                self._leftovers.cancel()
            await self._close_reader()
            await self._output.aclose()

    def _received(self, data: bytes) -> None:
        if self._on_output is not None:
            self._on_output(len(data))
        super()._received(data)

    def _exited(self, _: asyncio.Future[int | None]) -> None:
        """Stop reading soon: processes that it started may hold its output open."""
        self._output.end_when_empty()
        if self._reader is not None:
            loop = asyncio.get_running_loop()
            self._leftovers = loop.call_later(_LEFT_OPEN_S, self._reader.end_when_empty)

    def _noise(self, line: Frame) -> None:
        self.noise_lines += 1
        log.debug("! not JSON on stdout of process %s", self.pid)
        self._output.add_noise(line)
        if self.noise_lines == self._noise_limit and not self._output.has_sent:
            self._reject_noise(line)

    def _reject_noise(self, line: Frame) -> None:
        """End the connection to a program that writes many lines, and no message."""
        self._no_agent = self._loss(
            f"{self._argv[0]} is not an agent: expected JSON-RPC messages on its stdout, got "
            f"{self.noise_lines:,} other lines, such as "
            f"{excerpt(line[:400].decode(errors='replace'), 80)!r}"
        )
        self.pause_reading()
        self._receiver.eof_received(self._no_agent)


@tolerates("noise-on-stdout")
class _NonJsonFilter:
    """Passes JSON to the receiver, and everything else to `noise`."""

    def __init__(
        self, receiver: Receiver, noise: Callable[[Frame], None], output: ProcessOutput
    ) -> None:
        self._receiver = receiver
        self._noise = noise
        self._output = output
        self.eof_received = receiver.eof_received
        self.writable = receiver.writable

    def frames_received(self, frames: Sequence[Frame]) -> None:
        """Pass JSON objects on; usually the first byte decides, which takes 15 ns per frame."""
        try:
            strange = [frame for frame in frames if frame[0] != _OBJECT]
        except IndexError:  # a blank line
            strange = frames
        if strange:
            frames = [frame for frame in frames if self._is_frame(frame)]
        if frames:
            self._output.has_sent = True
            self._receiver.frames_received(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        """Report an oversized frame, unless it is not JSON."""
        text = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
        if text.startswith((b"{", b"[")) or not text:
            self._receiver.frame_refused(limit, head)
        else:
            self._noise(head)

    def _is_frame(self, frame: Frame) -> bool:
        text = frame.removeprefix(_BYTE_ORDER_MARK).lstrip()
        if text.startswith(b"{") or not text:
            return bool(text)
        # A log line may begin with a bracket, too: "[info] listening".
        if text.startswith(b"["):
            with contextlib.suppress(lenient_json.NotJson):
                lenient_json.loads(text)
                return True
        self._noise(frame)
        return False


def _pipe(reading: list[int], writing: list[int]) -> tuple[int, int]:
    read_fd, write_fd = os.pipe()
    reading.append(read_fd)
    writing.append(write_fd)
    return read_fd, write_fd


def _drop(_: bytes) -> list[bytes | bytearray]:
    return []
