"""The agents that can be used: one of this window, a named one, a command, a URL."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from accord.cli.ask.safe_text import one_line
from accord.errors import AccordError
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.pick_screen import Choice, PickScreen

__all__ = ("AGENTS", "choose_agent")


class _Start(Struct, frozen=True):
    """A line of the list: the agent to open a session of."""

    label: str


def choose_agent(screen: ChatScreen) -> None:
    """List the agents, and open a session of the chosen one in a tab."""

    def chosen(choice: _Start | None) -> None:
        if choice is not None:
            _open(screen, choice.label)

    def typed(text: str) -> list[Choice[_Start]]:
        return [Choice(f"Start {text}", _Start(text), "a command or a URL")]

    picker = PickScreen[_Start](
        "Open a session of an agent",
        list(_choices(screen)),
        typed=typed,
        placeholder="Type a name, or the command or URL of an agent",
    )
    screen.program.push_screen(picker, chosen)


def _choices(screen: ChatScreen) -> Iterator[Choice[_Start]]:
    chat, current = screen.chat, screen.session.agent_name
    opened = list(dict.fromkeys(session.agent_name for session in chat.sessions))
    try:
        known = {agent.label: agent for agent in chat.known_agents()}
    except AccordError as error:
        screen.notify(one_line(str(error)), severity="error", markup=False)
        known = {}
    for label in opened:
        count = sum(session.agent_name == label for session in chat.sessions)
        detail = "open here" if count == 1 else f"{count} sessions open here"
        yield Choice(label, _Start(label), detail, label == current)
    for label, agent in known.items():
        if label not in opened:
            yield Choice(label, _Start(label), f"{agent.origin}: {agent.command}")


def _open(screen: ChatScreen, label: str) -> None:
    try:
        session = screen.chat.open_session(label)
    except (AccordError, ValueError) as error:
        screen.notify(one_line(str(error)), severity="error", markup=False)
    else:
        screen.show_session(session)


AGENTS = Command("agents", "alt+n", "Alt+N", "Open a session of another agent", choose_agent)
