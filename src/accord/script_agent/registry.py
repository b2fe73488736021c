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
from accord.script_agent.command import Act
from accord.script_agent.session_settings import OPTIONS

__all__ = ("ACTS", "OPTIONS", "find", "help_text")


async def _help(turn: Turn, _: str) -> None:
    await turn.say(help_text())


ACTS = (
    Act("help", "", "says what there is", _help),
    *messages.ACTS,
    *full_turn.ACTS,
    *tools_and_plans.ACTS,
    *ask_user.ACTS,
    *files_and_terminals.ACTS,
    *background.ACTS,
    *session_settings.ACTS,
    *stop.ACTS,
)
_BY_NAME = {act.name: act for act in ACTS}


def find(name: str) -> Act | None:
    """Return the act of this name."""
    return _BY_NAME.get(name)


def help_text() -> str:
    """Return the list of all acts, as Markdown."""
    lines = [f"- `{act.usage}`: {act.does}" for act in ACTS]
    return "\n".join(["Tell me one of these:", "", *lines])
