"""The messages for the errors that end `accord ask`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from accord.errors import AccordError, AuthRequired, RequestError, StartError
from accord.text.excerpt import hidden_removed
from accord.transports.process import LastLines

MAX_LINES = 5  # of the agent's stderr, and of its stdout


class Failure(Struct, frozen=True):
    """The message for the user; `code` is that of a JSON-RPC error."""

    message: str
    code: int | None = None
    hint: str = ""


class _Run(Struct, frozen=True):
    """What the messages mention."""

    program: str
    auth_methods: Sequence[str]
    initialize_timeout_s: float


def _auth_required(error: AuthRequired, run: _Run) -> Failure:
    methods = f", by {' or '.join(run.auth_methods)}" if run.auth_methods else ""
    return Failure(f"{error.text}: log in to the agent first{methods}", error.code)


def _request_error(error: RequestError, _: _Run) -> Failure:
    return Failure(str(error), error.code)


def _start_error(error: StartError, _: _Run) -> Failure:
    return Failure(str(error), hint="`accord agents` lists the agents that have a name.")


def _accord_error(error: AccordError, _: _Run) -> Failure:
    return Failure(str(error))


def _timeout(_: TimeoutError, run: _Run) -> Failure:
    return Failure(
        f"{run.program} did not respond to `initialize` within {run.initialize_timeout_s:.0f} "
        "seconds"
    )


# The first row that matches describes an error.
_FAILURES: tuple[tuple[type[Exception], Callable[[Any, _Run], Failure]], ...] = (
    (AuthRequired, _auth_required),
    (RequestError, _request_error),
    (StartError, _start_error),
    (AccordError, _accord_error),
    (TimeoutError, _timeout),
)


def describe_failure(
    error: Exception, program: str, auth_methods: Sequence[str], initialize_timeout_s: float
) -> Failure | None:
    """Return the message for an error; None for an error of the operating system."""
    run = _Run(program, auth_methods, initialize_timeout_s)
    for kind, describe in _FAILURES:
        if isinstance(error, kind):
            return describe(error, run)
    return None


def stderr_lines(stderr: tuple[str, ...], message: str) -> tuple[str, ...]:
    """Return the last lines of stderr to show below a message; none if it has the only one."""
    last = stderr[-MAX_LINES:]
    return () if len(last) == 1 and last[0].strip() in message else last


def failure_lines(failure: Failure, output: LastLines, program: str = "accord ask") -> list[str]:
    """Return the report for stderr: the message, the output of the agent, the hint."""
    message = hidden_removed(failure.message)
    if failure.code is None and message.startswith(("Cannot ", "The ")):  # not the agent's words
        message = message[0].lower() + message[1:]
    lines = [f"{program}: {message}"]
    if output.stdout:
        lines.append("  on its stdout, which must contain only JSON:")
        lines += (f"    {line}" for line in output.stdout[-MAX_LINES:])
    if stderr := stderr_lines(output.stderr, failure.message):
        lines.append("  last lines of its stderr:")
        lines += (f"    {line}" for line in stderr)
    return [*lines, failure.hint] if failure.hint else lines
