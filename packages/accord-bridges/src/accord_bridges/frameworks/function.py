"""Functions as agents: `async def answer(prompt, session)` that returns, or yields, the answer.

What is yielded is shown at once: text, images and other content. `session` is the turn of the
library, with `tool`, `permission`, `plan` and all else. Both arguments are optional.
"""

from __future__ import annotations

import inspect
from contextlib import aclosing
from typing import Any

from accord.types.session import StopReason
from accord_bridges.bridge import BridgedAgent
from accord_bridges.run import Run


class FunctionAgent(BridgedAgent):
    """An agent whose turns are calls of a function."""

    prompt_capabilities = frozenset({"image", "audio", "resource"})
    takes_editor_tools = False

    def default_name(self) -> str:
        """Return the name of the function."""
        return str(getattr(self.target, "__name__", type(self.target).__name__))

    async def answer(self, run: Run) -> StopReason | None:
        given: dict[str, Any] = {"prompt": run.text, "session": run.turn}
        result = _called(self.target, given)
        if inspect.isasyncgen(result):
            async with aclosing(result) as parts:
                async for part in parts:
                    await run.show(part)
            return None
        await run.show(await result if inspect.isawaitable(result) else result)
        return None


def _called(function: Any, given: dict[str, Any]) -> Any:
    """Call with the arguments that the function takes: by position, in this order."""
    positions = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and (parameter.default is parameter.empty or parameter.name in given)
    ]
    if [p.name for p in positions] == ["session"]:
        return function(given["session"])
    return function(*list(given.values())[: len(positions)])


def check(function: Any) -> str | None:
    """Return why a function cannot be an agent; None if it can."""
    is_plain = inspect.isfunction(function) or inspect.ismethod(function)
    code: Any = function if is_plain else type(function).__call__
    if not (inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code)):
        return "expected `async def` with the parameters (prompt, session), both optional"
    required = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(required) > 2:
        return f"expected at most the parameters (prompt, session), got ({', '.join(required)})"
    return None
