"""The transport of clients: an agent as a subprocess, which never outlives its owner.

`process` returns what starts a command, `ProcessTransport` carries frames over its stdin and
stdout. `ProcessOutput` is what a process writes in addition to messages, and how errors report it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from accord.errors import (
    AuthRequired,
    ConnectionClosed,
    ConnectionLost,
    InvalidParams,
    MethodNotFound,
    RequestCancelled,
    ResourceNotFound,
    StartError,
    TransportError,
    VersionNotOffered,
)
from accord.rules.quirks import tolerates
from accord.text import lenient_json
from accord.text.excerpt import excerpt, output_lines
from accord.text.redact import SHORTEST, redactor, secret_variables
from accord.text.secrets import redacted_text
from accord.transports.base import FRAME_BYTES, Frame, Receiver
from accord.transports.command_line import (
    argv_of,
    batch_line,
    environment,
    find_program,
    why_not_started,
)
from accord.transports.process_group import CREATION_FLAGS, Mark, ProcessGroup, StopTimes, exit_text
from accord.transports.stdio import PipeTransport, Reader, open_reader

__all__ = (
    "LastLines",
    "ProcessOutput",
    "ProcessTransport",
    "argv_of",
    "process",
)

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
        if self._no_agent is not None:  # it does not read its stdin
            leave_s = 0.0
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


# What a process writes in addition to messages, and how errors report it.
#
# The end of its stderr and the last lines on its stdout that are not messages are remembered in one
# place. Errors get them as lines without escape sequences and secrets.

log: logging.Logger = logging.getLogger("accord.transports")

STDERR_BYTES = 64 * 1024  # kept
_NOISE_BYTES = 4096  # of a line that is not JSON
MAX_LINES = 20  # of stderr and of stdout, in an error
MAX_LINE_CHARACTERS = 500
_LATE_S = 0.25  # for a line of stderr that is written after the response about which it is
_QUIET_S = 0.05  # between two lines that belong together
_SETTLE_S = 0.5  # for all of them

# These say what is wrong, and do not come from a failure of the agent.
_CLEAR = (MethodNotFound, RequestCancelled, VersionNotOffered)
_DELIBERATE = (AuthRequired, InvalidParams, ResourceNotFound)

_MARK = "_has_last_lines"  # of errors that were explained


class LastLines(Struct, frozen=True):
    """The last lines of a process, without escape sequences, control characters and secrets.

    `stdout` has lines that are not messages, and only if the process has sent no message yet.
    """

    stderr: tuple[str, ...] = ()
    stdout: tuple[str, ...] = ()

    @property
    def last(self) -> str:
        """The last line; that of stdout if there is none on stderr."""
        lines = self.stderr or self.stdout
        return lines[-1] if lines else ""

    def note(self) -> str:
        """Return the lines as the note of an error; empty if there are none."""
        parts: list[str] = []
        if self.stdout:
            parts.append("The last lines on the agent's stdout, which must contain only JSON:")
            parts += (f"  {line}" for line in self.stdout)
        if self.stderr:
            parts.append("The last lines of the agent's stderr:")
            parts += (f"  {line}" for line in self.stderr)
        return "\n".join(parts)

    def add_to(self, error: BaseException) -> None:
        """Add the lines to an error: as its note, and as `stderr` and `stdout`."""
        of_error: Any = error
        if self.stderr:
            of_error.stderr = "\n".join(self.stderr)
        if self.stdout:
            of_error.stdout = "\n".join(self.stdout)
        if note := self.note():
            error.add_note(note)

    @classmethod
    def of(cls, error: BaseException) -> LastLines:
        """Return the lines that were added to an error."""
        texts = (vars(error).get(name) for name in ("stderr", "stdout"))
        return cls(*(tuple(text.split("\n")) if text else () for text in texts))


class ProcessOutput:
    """Reads stderr continuously, so that the process never blocks on it; remembers the end."""

    def __init__(
        self,
        on_stderr: Callable[[str], None] | None,
        on_noise: Callable[[str], None] | None,
        on_output: Callable[[int], None] | None,
    ) -> None:
        self.env: Mapping[str, str] | None = None  # of the process; None: that of this one
        self.has_sent: bool = False  # a message
        self._on_stderr = on_stderr
        self._on_noise = on_noise
        self._on_output = on_output
        self._kept = bytearray()
        self._was_cut = False
        self.stderr_bytes: int = 0  # read so far
        self._noise: deque[bytes] = deque(maxlen=MAX_LINES)
        self._partial_line = b""
        self._reader: Reader | None = None
        self._over: asyncio.Future[None] | None = None
        self._more: asyncio.Future[None] | None = None  # set while a caller waits for more
        self._read_at = 0.0

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB of stderr, as the process wrote them."""
        return self._kept[-STDERR_BYTES:].decode("utf-8", "replace")

    # Reading.

    def begin(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        """Read stderr from now on."""
        self._over = loop.create_future()
        self._reader = open_reader(loop, fd, self._received, self._ended)

    def end_when_empty(self) -> None:
        """Read what the pipe holds, and not more."""
        if self._reader is not None:
            self._reader.end_when_empty()

    async def wait_until_read(self, timeout_s: float) -> None:
        """Wait for the end of stderr."""
        if self._over is not None:
            await asyncio.wait([self._over], timeout=timeout_s)

    async def aclose(self) -> None:
        """Stop reading."""
        if self._reader is not None:
            await self._reader.aclose()
            self._ended(None)

    def add_noise(self, line: Frame) -> None:
        """Add a line of stdout that is not JSON."""
        if self._on_noise is not None:
            _show(self._on_noise, bytes(line[:_NOISE_BYTES]))
        if not self.has_sent:
            self._noise.append(bytes(line[:_NOISE_BYTES]))

    def _received(self, data: bytes) -> None:
        if self._on_output is not None:
            self._on_output(len(data))
        self._kept += data
        self.stderr_bytes += len(data)
        if len(self._kept) > 2 * STDERR_BYTES:
            del self._kept[:-STDERR_BYTES]
            self._was_cut = True
        if self._more is not None and not self._more.done():
            self._more.set_result(None)
        self._read_at = time.monotonic()
        if self._on_stderr is None:
            return
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        if len(self._partial_line) > STDERR_BYTES:
            lines.append(self._partial_line)
            self._partial_line = b""
        for line in lines:
            _show(self._on_stderr, line)

    def _ended(self, _: OSError | None) -> None:
        if self._partial_line and self._on_stderr is not None:
            _show(self._on_stderr, self._partial_line)
            self._partial_line = b""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    # Errors.

    async def lines_after(self, stderr_bytes: int) -> LastLines:
        """Return the last lines of stderr after its first bytes; wait a short time for more."""
        await self._settle()
        return LastLines(self.last_lines(after=stderr_bytes).stderr)

    def last_lines(self, *, unseen: bool = False, after: int = 0) -> LastLines:
        """Return the last lines; with `unseen` only those that no callback has received.

        Those of stderr have something that came `after` so many bytes.
        """
        secrets = _parts(secret_variables(os.environ if self.env is None else self.env).values())
        stderr = stdout = ()
        if not (unseen and self._on_stderr is not None):
            data, was_cut = self._stderr_after(after)
            stderr = _lines(data, secrets, was_cut=was_cut)
        if not self.has_sent and not (unseen and self._on_noise is not None):
            stdout = _lines(b"\n".join(self._noise), secrets)
        return LastLines(stderr, stdout)

    def _stderr_after(self, count: int) -> tuple[bytes, bool]:
        """Return what is kept, in whole lines, and whether it lost its beginning."""
        if count == self.stderr_bytes:
            return b"", False
        start = max(0, len(self._kept) - (self.stderr_bytes - count))
        start = self._kept.rfind(b"\n", 0, start) + 1
        return bytes(self._kept[start:]), self._was_cut and start == 0

    async def explain(self, error: BaseException) -> None:
        """Add the last lines to an error, once: as its note, and as `stderr` and `stdout`."""
        if isinstance(error, _CLEAR) or _MARK in vars(error):
            return
        if not isinstance(error, _DELIBERATE) and self._on_stderr is None:
            await self._settle()
        self.add_to(error)

    def add_to(self, error: BaseException) -> None:
        """Do the same without waiting for a line that is just being written."""
        if _MARK in vars(error):
            return
        self.last_lines(unseen=True).add_to(error)
        vars(error)[_MARK] = True

    async def _settle(self) -> None:
        """Wait a short time for lines that are just being written."""
        if self._over is None:
            return
        deadline = time.monotonic() + _SETTLE_S
        quiet_s = _QUIET_S if time.monotonic() - self._read_at < _LATE_S else _LATE_S
        while not self._over.done() and (left_s := deadline - time.monotonic()) > 0:
            if self._more is None or self._more.done():
                self._more = asyncio.get_running_loop().create_future()
            await asyncio.wait(
                [self._more, self._over],
                timeout=min(quiet_s, left_s),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not self._more.done():
                return
            quiet_s = _QUIET_S


def _lines(data: bytes, secrets: tuple[str, ...], *, was_cut: bool = False) -> tuple[str, ...]:
    """Return the last lines of an output, cleaned, and then without secrets."""
    text = data[-STDERR_BYTES:].decode("utf-8", "replace")
    if was_cut or len(data) > STDERR_BYTES:  # a line, and perhaps a secret, lost its beginning
        head, _, rest = text.partition("\n")
        text = rest or head[_secret_end(head, secrets) :]
    text = "\n".join(line for line in output_lines(text) if line.strip())
    # Before lines are shortened: a part of a secret would not be found.
    text = redacted_text(redactor(secrets).text(text))
    lines = text.split("\n")[-MAX_LINES:] if text else ()
    return tuple(_shortened(redacted_text(line)) for line in lines)  # a line can be JSON


def _secret_end(text: str, secrets: tuple[str, ...]) -> int:
    """Return how many characters at the beginning can be the end of a secret."""
    ends = (n for secret in secrets for n in range(1, len(secret)) if text.startswith(secret[-n:]))
    return max(ends, default=0)


def _shortened(line: str) -> str:
    """Return a line with both ends: what failed can be at either."""
    if len(line) <= MAX_LINE_CHARACTERS:
        return line
    half = (MAX_LINE_CHARACTERS - 3) // 2
    return f"{line[:half]} … {line[-half:]}"


def _parts(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return secrets, and the lines of those that have several."""
    lines = (line for secret in secrets for line in (secret, *secret.split()))
    return tuple(dict.fromkeys(line for line in lines if len(line) >= SHORTEST))


def _show(callback: Callable[[str], None], line: bytes) -> None:
    try:
        callback(line.decode("utf-8", "replace").rstrip("\r"))
    except Exception:  # an error in a callback must not end the connection
        log.exception("! %s failed", getattr(callback, "__name__", "an observer"))
