"""Acts that end the turn, or more than that."""

from __future__ import annotations

from collections.abc import Callable

from accord import InternalError, RequestError, Turn
from accord.script_agent.command import Act, Misused, number

__all__ = ("ACTS",)


_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")


async def _stop(_: Turn, reason: str) -> str | None:
    if reason not in _REASONS and not reason.startswith("_"):
        own = "or a name that begins with an underscore"
        raise Misused(f"Expected {', '.join(f'`{known}`' for known in _REASONS)}, {own}.")
    return reason


async def _error(_: Turn, rest: str) -> None:
    code = number(rest, default=InternalError.default_code, least=-(2**31), most=2**31 - 1)
    raise RequestError.of(code, "The script says so", {"code": code})


async def _crash(_turn: Turn, _: str) -> None:
    raise RuntimeError("The script agent was told to crash")


async def _exit(turn: Turn, rest: str) -> None:
    status = number(rest, default=0, most=255)
    leave: Callable[[int], object] | None = turn.session.data["leave"]
    if leave is None:
        raise Misused("This agent has no process of its own.")
    leave(status)


ACTS = (
    Act("stop", "REASON", "ends the turn with this stop reason", _stop),
    Act("error", "[CODE]", "fails with this JSON-RPC error (-32603)", _error),
    Act("crash", "", "fails with an exception that it did not expect", _crash),
    Act("exit", "[N]", "ends the process with status N (0), in the middle of the turn", _exit),
)
