"""The agents that can be used: one of this window, a named one, a command, a URL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from msgspec import Struct

from accord.errors import AccordError
from accord.transports.registry import is_url
from accord_chat.model.known_agents import KnownAgent
from accord_chat.view.chat_screen import ChatScreen
from accord_chat.view.commands.base import Command
from accord_chat.view.pick_screen import Choice, PickScreen
from accord_terminal.toolkit.text import one_line


class _Start(Struct, frozen=True):
    """A line of the list: the agent to open a session of."""

    label: str


class _Search(Struct, frozen=True):
    """A line of the list: search the registry for these words."""

    words: str


def choose_agent(screen: ChatScreen) -> None:
    """List the agents, and open a session of the chosen one in a tab."""

    def chosen(choice: _Start | _Search | None) -> None:
        match choice:
            case _Start(label):
                _open(screen, label)
            case _Search(words):
                _search(screen, words)
            case None:
                pass

    def typed(text: str) -> list[Choice[_Start | _Search]]:
        if not text:
            return [Choice("Search the registry for more agents …", _Search(""))]
        start = Choice[_Start | _Search](f"Start {text}", _Start(text), "a command or a URL")
        search = Choice[_Start | _Search](f"Search the registry for {text}", _Search(text))
        return [start, search] if _can_start(text) else [search, start]

    picker = PickScreen["_Start | _Search"](
        "Open a session of an agent",
        list(_choices(screen)),
        typed=typed,
        placeholder="Type a name, or the command or URL of an agent",
    )
    screen.program.push_screen(picker, chosen)


def _choices(screen: ChatScreen) -> Iterator[Choice[_Start | _Search]]:
    chat, current = screen.chat, screen.session.agent_name
    opened = list(dict.fromkeys(session.agent_name for session in chat.sessions))
    known = _known(screen)
    for label in opened:
        count = sum(session.agent_name == label for session in chat.sessions)
        detail = "open here" if count == 1 else f"{count} sessions open here"
        yield Choice(label, _Start(label), detail, label == current)
    for label, agent in known.items():
        if label not in opened:
            yield Choice(label, _Start(label), f"{agent.origin}: {agent.command}")


def _can_start(text: str) -> bool:
    """Return whether it is a URL, or begins with a program of this machine."""
    return is_url(text) or shutil.which(text.split()[0]) is not None


def _known(screen: ChatScreen) -> dict[str, KnownAgent]:
    try:
        return {agent.label: agent for agent in screen.chat.known_agents()}
    except AccordError as error:
        screen.notify(one_line(str(error)), severity="error", markup=False)
        return {}


def _search(screen: ChatScreen, words: str) -> None:
    """Show the registry, and open a session of the agent that the user chooses there."""
    from accord_chat.registry import registry_address
    from accord_chat.view.registry.registry_screen import RegistryScreen

    def chosen(name: str | None) -> None:
        if name is not None:
            _open(screen, name)

    own = frozenset(agent.label for agent in _known(screen).values() if agent.origin == "settings")
    screen.program.push_screen(RegistryScreen(registry_address(), words, own), chosen)


def _open(screen: ChatScreen, label: str) -> None:
    try:
        session = screen.chat.open_session(label)
    except (AccordError, ValueError) as error:
        screen.notify(one_line(str(error)), severity="error", markup=False)
    else:
        screen.show_session(session)


AGENTS = Command("agents", "alt+n", "Alt+N", "Open a session of another agent", choose_agent)
