"""Commands that end the turn or the process."""

from __future__ import annotations

from collections.abc import Callable

from accord import InternalError, RequestError, Turn
from accord.script_agent.command import ScriptCommand, UsageError, parse_number

_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")


async def _stop(_: Turn, reason: str) -> str | None:
    if reason not in _REASONS and not reason.startswith("_"):
        own = "or a reason that begins with an underscore"
        raise UsageError(f"Expected {', '.join(f'`{known}`' for known in _REASONS)}, {own}.")
    return reason


async def _error(_: Turn, rest: str) -> None:
    code = parse_number(
        rest, default=InternalError.default_code, minimum=-(2**31), maximum=2**31 - 1
    )
    raise RequestError.of(code, "The script says so", {"code": code})


async def _crash(_turn: Turn, _: str) -> None:
    raise RuntimeError("The script agent was told to crash")


async def _exit(turn: Turn, rest: str) -> None:
    status = parse_number(rest, default=0, maximum=255)
    exit_process: Callable[[int], object] | None = turn.session.data["exit_process"]
    if exit_process is None:
        raise UsageError("This agent does not run in its own process.")
    exit_process(status)


STOP = (
    ScriptCommand(
        "stop",
        "REASON",
        "End the turn with this stop reason",
        _stop,
        "Nothing; the turn ends with this stop reason: one that the protocol defines, or one "
        "that begins with an underscore. Version 1 has fewer stop reasons: unknown ones "
        "become `end_turn`, and `error` becomes an error.",
    ),
    ScriptCommand(
        "error",
        "[CODE]",
        "Fail with this JSON-RPC error (-32603)",
        _error,
        'The error CODE (-32603) with the message `The script says so` and `{"code": CODE}` '
        "as data: in version 1 as the response to the prompt, in version 2 in the idle "
        "state.",
    ),
    ScriptCommand(
        "crash",
        "",
        "Fail with an unexpected exception",
        _crash,
        "The error -32603, `Internal error`, as if the agent had a bug; the traceback is "
        "written to its stderr.",
    ),
    ScriptCommand(
        "exit",
        "[N]",
        "Exit the process with status N (0), in the middle of the turn",
        _exit,
        "Nothing; the process exits at once with status N (0), in the middle of the turn.",
    ),
)
