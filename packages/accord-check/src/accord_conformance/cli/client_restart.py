"""Starts a client that died again, for the scenarios that it did not get to.

The client starts its agent again, which is another process of the kit with the same report. Both
share a file next to that report: what was found so far, and the names of the remaining scenarios.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from contextlib import suppress
from pathlib import Path

from msgspec import DecodeError, Struct, ValidationError, field, msgpack

from accord_conformance.cli.report_files import write_atomically
from accord_conformance.client.run import ClientRun
from accord_conformance.reports.run_result import RunResult

_WAIT_S = 3600.0  # for a client that was started again


class Continuation(Struct, kw_only=True):
    """What a process of the kit leaves to the next one; `owner` started the client again."""

    owner: int
    result: RunResult
    remaining: list[str] = field(default_factory=list[str])


def continuation_file(report: Path) -> Path:
    """Return the file that the processes with this report share."""
    return report.with_name(f".{report.name.replace('{pid}', 'pid')}.rest")


def read_continuation(path: Path) -> Continuation | None:
    """Return what an earlier process has left, unless that process has ended."""
    try:
        found = msgpack.decode(path.read_bytes(), type=Continuation)
        os.kill(found.owner, 0)
    except (OSError, DecodeError, ValidationError):
        return None
    return found


def write_continuation(path: Path, owner: int, run: ClientRun) -> None:
    """Leave the findings of a run, and the scenarios that it did not get to."""
    rest = Continuation(owner=owner, result=run.result(), remaining=run.remaining())
    write_atomically(path, msgpack.encode(rest), private=True)


def restart_client(command: str, path: Path, run: ClientRun) -> RunResult:
    """Start the client again until no scenario remains; return the findings of all processes.

    A client that dies in each scenario is started as often as there are scenarios. It is not
    started again if the last start did not get to any.
    """
    result = run.result()
    remaining = run.remaining()
    try:
        while remaining:
            _explain(result, f"The client was started again for the other scenarios: {command}")
            rest = Continuation(owner=os.getpid(), result=result, remaining=remaining)
            write_atomically(path, msgpack.encode(rest), private=True)
            problem = _start(command)
            after = read_continuation(path)
            if after is None or len(after.remaining) >= len(remaining):
                _explain(result, f"Started again, it ran no scenario{problem}")
                break
            result, remaining = after.result, after.remaining
    finally:
        with suppress(OSError):
            path.unlink()
    return result


def _start(command: str) -> str:
    """Run the client until it ends; describe how, if that was not a success."""
    try:
        ended = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_WAIT_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f": {error}"
    return f": exit status {ended.returncode}" if ended.returncode else ""


def _explain(result: RunResult, words: str) -> None:
    """Add a sentence to the last scenario in which the client died."""
    if result.disconnects:
        last = result.disconnects[-1]
        last.advice = f"{last.advice} {words}.".strip()
