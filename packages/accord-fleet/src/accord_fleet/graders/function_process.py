"""The process that calls a grader in Python: `python -m accord_fleet.graders.function_process`.

stdin has a pickled `Call`. The verdict is one JSON object on stdout; what the function prints goes
to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec

from accord_fleet.errors import FleetError
from accord_fleet.graders.references import load_object
from accord_fleet.graders.verdicts import NotAVerdict, verdict_of
from accord_fleet.types.grading import GradedAttempt
from accord_fleet.types.result import Verdict


class Call(msgspec.Struct, frozen=True):
    """A call of a grader."""

    function: str
    attempt: GradedAttempt
    sys_path: tuple[str, ...]
    memory_bytes: int


class Check(msgspec.Struct, frozen=True):
    """A check whether graders can be imported."""

    functions: tuple[str, ...]
    sys_path: tuple[str, ...]


def main() -> None:
    """Read a call from stdin, and write the verdict."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        given = pickle.load(sys.stdin.buffer)
        sys.path[:] = [*given.sys_path, *(path for path in sys.path if path not in given.sys_path)]
        match given:
            case Call():
                result: Any = _graded(given)
            case _:
                result = {name: _why_not_callable(name) for name in given.functions}
        out.write(msgspec.json.encode(result))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # what the function left running does not delay the verdict


def _graded(call: Call) -> Verdict:
    _limit_memory(call.memory_bytes)
    try:
        function = load_object(call.function)
        os.chdir(call.attempt.workspace)
        value = function(call.attempt)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        return verdict_of(value)
    except FleetError as error:
        return Verdict(error=str(error))
    except NotAVerdict as error:
        return Verdict(error=f"{call.function}: {error}")
    except MemoryError:
        return Verdict(error=f"{call.function} needs more than {call.memory_bytes} bytes of memory")
    except (Exception, SystemExit) as error:  # noqa: BLE001  # any exception of the grader
        return Verdict(error=_described(call.function, error))


async def _awaited(value: Any) -> Any:
    return await value


def _described(function: str, error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in last)
    what = "".join(traceback.format_exception_only(error)).strip()
    return f"{function} raised {what}{where}"


def _why_not_callable(function: str) -> str | None:
    try:
        found = load_object(function)
    except FleetError as error:
        return str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # any exception of the module
        return f"{function} cannot be imported: {_described(function, error)}"
    return None if callable(found) else f"{function} is not a function"


def _limit_memory(limit: int) -> None:
    """Limit the memory, and let the system end this process first when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


if __name__ == "__main__":
    # Pickled under the module's name: not those of `__main__`.
    from accord_fleet.graders import function_process

    function_process.main()
