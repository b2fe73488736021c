"""A command on this machine: without shell and input, with its last output, stopped as a group.

`InPlace` makes short calls of the file system without a thread.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from accord.errors import StartError
from accord.rules.quirks import tolerates
from accord.transports.command_line import environment, find_program, why_not_started
from accord.transports.process_group import CREATION_FLAGS, Mark, ProcessGroup, start_guardian
from accord.transports.stdio import Reader, open_reader

# A line with one of these is more than the name of a program.
_SHELL_CHARACTERS = frozenset(" \t\n|&;<>()$`'\"*?")
_LEFT_OPEN_S = 0.25  # for output that others hold open after the command has ended
_STOP_TIMES_S = (0.0, 2.0, 2.0)


@tolerates("shell-line")
def in_shell(argv: Sequence[str], cwd: str, env: Mapping[str, str | None] | None) -> list[str]:
    """Return the words to run; a shell command line instead of a program is passed to a shell."""
    if len(argv) != 1 or not set(argv[0]) & _SHELL_CHARACTERS:
        return list(argv)
    line = argv[0]
    changed = environment(env)
    try:
        find_program(line, cwd, changed)
    except StartError:
        pass
    else:
        return [line]
    if os.path.lexists(os.path.join(cwd, line)):  # noqa: PTH118  # a text
        return [line]  # a path that cannot be run is an error of its own
    variables = os.environ if changed is None else changed
    if os.name == "nt":
        return [variables.get("COMSPEC", "cmd.exe"), "/d", "/s", "/c", line]
    return [variables.get("SHELL") or "/bin/sh", "-c", line]


class Output:
    """The last bytes of an output, cut between characters (R-TERM-04, R-TERM-05)."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit = limit_bytes
        self._kept = bytearray()
        self.truncated = False

    def add(self, data: bytes) -> None:
        """Append bytes; drop the beginning beyond the limit."""
        self._kept += data
        if self._limit is not None and len(self._kept) > 2 * self._limit + 4096:
            self._cut(self._limit)

    def text(self) -> str:
        """Return the stored output; invalid UTF-8 is replaced."""
        if self._limit is not None and len(self._kept) > self._limit:
            self._cut(self._limit)
        return self._kept.decode("utf-8", "replace")

    def _cut(self, limit: int) -> None:
        self.truncated: bool = True
        at = len(self._kept) - limit
        end = min(at + 3, len(self._kept))
        while at < end and self._kept[at] & 0xC0 == 0x80:
            at += 1  # the middle of a character
        del self._kept[:at]


class LocalCommand:
    """Runs from its creation until it ends; `aclose` stops it and its descendants.

    It is also stopped when this process ends, even by SIGKILL; for the limits see
    `accord.transports.process_group.ProcessGroup`.

    Raises `StartError` if it cannot be started. `on_output` gets the bytes of stdout and stderr
    as they arrive.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str | None] | None = None,
        output_bytes: int | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.output: Output = Output(output_bytes)
        self._on_output = on_output
        self._over: asyncio.Future[None] = loop.create_future()
        start_guardian()  # first, so that it knows this process whenever that is killed
        mark = Mark("c")
        popen, fd = _spawn(argv, cwd, environment(env), mark)
        self._group = ProcessGroup(loop, popen, mark)
        self._group.guard_command(_STOP_TIMES_S)
        self._reader: Reader = open_reader(loop, fd, self._received, self._ended)
        self._group.exited.add_done_callback(self._left)
        self._closing: asyncio.Task[None] | None = None

    async def wait(self) -> tuple[int | None, str | None]:
        """Return the exit code or the name of the signal, after all output has been read."""
        await asyncio.wait([self._over, self._group.exited], return_when=asyncio.ALL_COMPLETED)
        return self.status()

    def status(self) -> tuple[int | None, str | None]:
        """Return the exit code or the name of the signal that ended it."""
        status = self._group.exited.result()
        if status is None or status >= 0:
            return status, None
        try:
            return None, signal.Signals(-status).name
        except ValueError:
            return None, str(-status)

    @property
    def running(self) -> bool:
        """Whether the command is running."""
        return not self._group.exited.done()

    async def kill(self) -> None:
        """Stop the command and its descendants; keep the output."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._group.stop(_STOP_TIMES_S))
        await asyncio.shield(self._closing)

    async def aclose(self) -> None:
        """Stop the command and release all resources."""
        try:
            await self.kill()
        finally:
            await self._reader.aclose()
            self._ended(None)

    def _received(self, data: bytes) -> None:
        self.output.add(data)
        if self._on_output is not None:
            self._on_output(data)

    def _ended(self, _: OSError | None) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _left(self, _: asyncio.Future[int | None]) -> None:
        """Stop reading soon: processes that it started may still hold its output open."""
        asyncio.get_running_loop().call_later(_LEFT_OPEN_S, self._reader.end_when_empty)


def _spawn(
    argv: Sequence[str], cwd: str, env: dict[str, str] | None, mark: Mark
) -> tuple[subprocess.Popen[bytes], int]:
    name = argv[0]
    program = find_program(name, cwd, env)
    ours, theirs = os.pipe()
    try:
        popen = subprocess.Popen(
            list(argv),
            executable=program,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env=mark.environment(env),
            start_new_session=True,
            creationflags=CREATION_FLAGS,
        )
    except (OSError, ValueError) as exc:
        os.close(ours)
        raise why_not_started(name, program, exc) from exc
    finally:
        os.close(theirs)
    return popen, ours


# Handing a short call of the file system to a thread takes longer than most of these calls. A slow
# file system, such as a network share, would stop all sessions, so after a slow call threads make
# the next ones. A call can also be slow because the machine is busy, so this lasts 50 ms at first,
# and twice as long after every further slow call.

SLOW_S = 0.01  # a call that takes longer is slow
# The time until the next call in place.
MIN_RETRY_S = 0.05
MAX_RETRY_S = 60.0

P = ParamSpec("P")
T = TypeVar("T")


class InPlace:
    """The calls of one owner; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slow_until = 0.0
        self._retry_s = MIN_RETRY_S

    @property
    def is_slow(self) -> bool:
        """Whether a call was slow, so that a thread makes the next one."""
        return self._clock() < self._slow_until

    async def call(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return the result of a function that blocks, called here or in a thread."""
        if self.is_slow:
            return await asyncio.to_thread(function, *args, **named)
        return self.call_here(function, *args, **named)

    def call_here(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Return the result of a function that blocks, and note whether it was slow."""
        start = self._clock()
        try:
            return function(*args, **named)
        finally:
            end = self._clock()
            if end - start > SLOW_S:
                self._slow_until = end + self._retry_s
                self._retry_s = min(2 * self._retry_s, MAX_RETRY_S)
            elif self._retry_s > MIN_RETRY_S:
                self._retry_s = max(self._retry_s / 2, MIN_RETRY_S)
