"""All commands of the script agent."""

from __future__ import annotations

from accord import Turn
from accord.script_agent import (
    ask_user,
    background,
    files_and_terminals,
    full_turn,
    messages,
    session_settings,
    stop,
    tools_and_plans,
)
from accord.script_agent.command import ScriptCommand
from accord.script_agent.session_settings import OPTIONS

__all__ = ("COMMANDS", "OPTIONS", "find_command", "help_text")


async def _help(turn: Turn, _: str) -> None:
    await turn.say(help_text())


COMMANDS = (
    ScriptCommand("help", "", "List the commands", _help, "The list of commands, as Markdown."),
    *messages.COMMANDS,
    *full_turn.COMMANDS,
    *tools_and_plans.COMMANDS,
    *ask_user.COMMANDS,
    *files_and_terminals.COMMANDS,
    *background.COMMANDS,
    *session_settings.COMMANDS,
    *stop.COMMANDS,
)
_BY_NAME = {command.name: command for command in COMMANDS}


def find_command(name: str) -> ScriptCommand | None:
    """Return the command of this name."""
    return _BY_NAME.get(name)


def help_text() -> str:
    """Return the list of all commands, as Markdown."""
    lines = [f"- `{command.usage}`: {command.summary}" for command in COMMANDS]
    return "\n".join(["Each prompt is one of these commands:", "", *lines])
