"""All that the script agent can be told."""

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
    ScriptCommand("help", "", "says what there is", _help),
    *messages.COMMANDS,
    *full_turn.COMMANDS,
    *tools_and_plans.COMMANDS,
    *ask_user.COMMANDS,
    *files_and_terminals.COMMANDS,
    *background.COMMANDS,
    *session_settings.COMMANDS,
    *stop.COMMANDS,
)
_BY_NAME = {act.name: act for act in COMMANDS}


def find_command(name: str) -> ScriptCommand | None:
    """Return the act of this name."""
    return _BY_NAME.get(name)


def help_text() -> str:
    """Return the list of all acts, as Markdown."""
    lines = [f"- `{act.usage}`: {act.does}" for act in COMMANDS]
    return "\n".join(["Tell me one of these:", "", *lines])
