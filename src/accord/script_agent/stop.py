"""Acts that end the turn, or more than that."""

from __future__ import annotations

from collections.abc import Callable

from accord import InternalError, RequestError, Turn
from accord.script_agent.command import ScriptCommand, UsageError, parse_number

__all__ = ("COMMANDS",)


_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")


async def _stop(_: Turn, reason: str) -> str | None:
    if reason not in _REASONS and not reason.startswith("_"):
        own = "or a name that begins with an underscore"
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
    leave: Callable[[int], object] | None = turn.session.data["leave"]
    if leave is None:
        raise UsageError("This agent has no process of its own.")
    leave(status)


COMMANDS = (
    ScriptCommand("stop", "REASON", "ends the turn with this stop reason", _stop),
    ScriptCommand("error", "[CODE]", "fails with this JSON-RPC error (-32603)", _error),
    ScriptCommand("crash", "", "fails with an exception that it did not expect", _crash),
    ScriptCommand(
        "exit", "[N]", "ends the process with status N (0), in the middle of the turn", _exit
    ),
)
