"""Runs a program until it ends, with bounds for its time and its output."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from accord.local.command import Output
from accord.transports.command_line import environment, find_program, why_not_started
from accord.transports.process_group import (
    CREATION_FLAGS,
    Mark,
    ProcessGroup,
    exit_text,
    start_guardian,
)
from accord.transports.stdio import Reader, open_reader

_STOP_TIMES_S = (0.0, 1.0, 2.0)
_LEFT_OPEN_S = 0.25  # for output that others hold open after the program has ended


class Ended(NamedTuple):
    """How a program ended, and the end of its output."""

    status: int | None
    """The exit status; negative for a signal."""
    timed_out: bool
    stdout: str
    stderr: str

    def describe(self) -> str:
        """Return how it ended, for a message."""
        return exit_text(self.status)


async def run_child(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str | None] | None = None,
    stdin: bytes = b"",
    timeout_s: float,
    output_bytes: int,
) -> Ended:
    """Run a program; it and what it started are stopped at the timeout, and when it has ended.

    It is also stopped if the caller is cancelled or this process ends. `output_bytes` is the limit
    for each of stdout and stderr, of which the end is kept. Raises `StartError`.
    """
    loop = asyncio.get_running_loop()
    start_guardian()  # first, so that it knows this process whenever that is killed
    mark = Mark("c")
    popen, fds = _spawn(argv, cwd, environment(env), mark, stdin)
    group = ProcessGroup(loop, popen, mark)
    group.guard_command(_STOP_TIMES_S)
    outputs = Output(output_bytes), Output(output_bytes)
    ends = [loop.create_future() for _ in fds]
    readers = [
        open_reader(loop, fd, output.add, _resolver(end))
        for fd, output, end in zip(fds, outputs, ends, strict=True)
    ]
    timed_out = False
    try:
        done, _ = await asyncio.wait([group.exited], timeout=timeout_s)
        timed_out = not done
    finally:
        await asyncio.shield(_finish(group, readers, ends))
    status = group.exited.result() if group.exited.done() else None
    return Ended(status, timed_out, outputs[0].text(), outputs[1].text())


async def _finish(
    group: ProcessGroup, readers: list[Reader], ends: list[asyncio.Future[None]]
) -> None:
    await group.stop(_STOP_TIMES_S)
    _, late = await asyncio.wait(ends, timeout=_LEFT_OPEN_S)
    if late:
        for reader in readers:
            reader.end_when_empty()
        await asyncio.wait(late, timeout=_LEFT_OPEN_S)
    for reader in readers:
        await reader.aclose()


def _resolver(end: asyncio.Future[None]) -> Callable[[OSError | None], None]:
    def ended(_: OSError | None) -> None:
        if not end.done():
            end.set_result(None)

    return ended


def _spawn(
    argv: Sequence[str], cwd: str, env: dict[str, str] | None, mark: Mark, stdin: bytes
) -> tuple[subprocess.Popen[bytes], list[int]]:
    program = find_program(argv[0], cwd, env)
    pipes = [os.pipe(), os.pipe()]
    try:
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            popen = subprocess.Popen(
                list(argv),
                executable=program,
                stdin=given,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                cwd=cwd,
                env=mark.environment(env),
                start_new_session=True,
                creationflags=CREATION_FLAGS,
            )
    except (OSError, ValueError) as error:
        for ours, _ in pipes:
            os.close(ours)
        raise why_not_started(argv[0], program, error) from error
    finally:
        for _, theirs in pipes:
            os.close(theirs)
    return popen, [ours for ours, _ in pipes]
