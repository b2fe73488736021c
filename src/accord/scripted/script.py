"""All that the script agent can be told."""

from __future__ import annotations

from accord import Turn
from accord.scripted import asking, beside, ending, machine, setting, showing, speaking, whole
from accord.scripted.acts import Act
from accord.scripted.setting import OPTIONS

__all__ = ("ACTS", "OPTIONS", "find", "help_text")


async def _help(turn: Turn, _: str) -> None:
    await turn.say(help_text())


ACTS = (
    Act("help", "", "says what there is", _help),
    *speaking.ACTS,
    *whole.ACTS,
    *showing.ACTS,
    *asking.ACTS,
    *machine.ACTS,
    *beside.ACTS,
    *setting.ACTS,
    *ending.ACTS,
)
_BY_NAME = {act.name: act for act in ACTS}


def find(name: str) -> Act | None:
    """Return the act of this name."""
    return _BY_NAME.get(name)


def help_text() -> str:
    """Return the list of all acts, as Markdown."""
    lines = [f"- `{act.usage}`: {act.does}" for act in ACTS]
    return "\n".join(["Tell me one of these:", "", *lines])
