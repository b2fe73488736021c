"""Parsing of slash commands, and helpers for them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct

from accord import ContentBlock
from accord_coder.loop.run_tools import run_tools
from accord_coder.messages import Answer, ToolResult, ToolUse

if TYPE_CHECKING:
    from accord import Turn
    from accord_coder.loop.coder_session import CoderSession


_COMMAND = re.compile(r"\s*/([A-Za-z][\w-]*)(?:\s+(.*))?\s*", re.DOTALL)


class CommandCall(Struct, frozen=True):
    """A command that the user typed, with its arguments and the attachments of the prompt."""

    name: str
    arguments: str = ""
    attachments: tuple[ContentBlock, ...] = ()


# Returns the prompt for the model; None if the command is complete.
CommandHandler: TypeAlias = Callable[
    [CommandCall, "Turn", "CoderSession"], Awaitable[tuple[ContentBlock, ...] | None]
]


class BuiltinCommand(Struct, frozen=True):
    """A built-in command. `for_model`: what it does is part of the conversation."""

    name: str
    description: str
    run: CommandHandler
    hint: str | None = None
    for_model: bool = False


def parse_command(content: tuple[ContentBlock, ...]) -> CommandCall | None:
    """Return the command of a prompt; None if it has none. A path such as /etc/hosts is text."""
    first = content[0] if content else None
    if not isinstance(first, str):
        return None
    found = _COMMAND.fullmatch(first)
    if found is None:
        return None
    return CommandCall(found[1].lower(), (found[2] or "").strip(), content[1:])


async def use_tool(
    turn: Turn, state: CoderSession, tool: str, /, **arguments: object
) -> ToolResult:
    """Use a tool as the model does: with permission, and as part of the conversation."""
    written = msgspec.json.encode(arguments).decode()
    asked = ToolUse(f"command-{len(state.messages)}", tool, written)
    state.messages.append(Answer(uses=(asked,)))
    results = await run_tools((asked,), turn, state)
    state.messages.append(results)
    return results.results[0]


async def say(turn: Turn, state: CoderSession, text: str) -> None:
    """Send a message that is part of the conversation."""
    await turn.say(text)
    state.messages.append(Answer(text=text))
