"""The names in README.md have precise types: `make lint` checks each `assert_type`."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import assert_type

import accord
from accord import (
    Agent,
    ClientSession,
    ClientTurn,
    ConnectedAgent,
    Proxy,
    ProxyTurn,
    Session,
    Transcript,
    Turn,
)
from accord.client.events import Event
from accord.types.session import StopReason
from accord.types.tool_calls import ToolStatus

README = Path(__file__).parents[3] / "README.md"


class Greeter(Agent):
    """The agent of the README, with a tool call."""

    async def prompt(self, turn: Turn) -> None:
        assert_type(turn.text, str)
        assert_type(turn.session, Session)
        async with turn.tool("Greet", kind="other"):
            pass
        assert_type(await turn.say(f"Hello! You wrote: {turn.text}"), None)


class Glossary(Proxy):
    """The proxy of the README."""

    async def prompt(
        self, turn: ProxyTurn, forward: Callable[[], Awaitable[StopReason]]
    ) -> StopReason:
        assert_type(turn.prepend("In this repository …"), None)
        return assert_type(await forward(), StopReason)

    def update(self, event: Event) -> Event:
        return assert_type(event.redacted(["hunter2"]), Event)


def start_proxy() -> None:
    assert_type(Glossary().run(), None)


def start() -> None:
    assert_type(Greeter().run(), None)


async def talk(command: Sequence[str]) -> list[str]:
    lines: list[str] = []
    connecting = accord.connect(command)
    assert_type(connecting, AbstractAsyncContextManager[ConnectedAgent, bool | None])
    async with connecting as agent:
        assert_type(agent, ConnectedAgent)
        session = await agent.new_session(cwd=".")
        assert_type(session, ClientSession)
        assert_type(session.prompt("Hello, agent!"), ClientTurn)
        async with session.prompt("Hello, agent!") as turn:
            assert_type(turn, ClientTurn)
            async for event in turn:
                assert_type(event, Event)
                match event:
                    case accord.Text(text):
                        assert_type(text, str)
                        lines.append(text)
                    case accord.ToolCall(title=title, status=status):
                        assert_type(title, str)
                        assert_type(status, ToolStatus)
                        lines.append(f"[{status}] {title}")
                    case _:
                        pass
        assert_type(turn.stop_reason, StopReason | None)
        assert_type(session.transcript, Transcript)
    return lines


def ask(command: Sequence[str]) -> accord.AskResult:
    result = accord.ask(command, "Hello, agent!")
    assert_type(result, accord.AskResult)
    assert_type(result.text, str)
    assert_type(result.stop_reason, StopReason)
    return result


def names_in(code: str) -> set[str]:
    """Return what code imports from accord or reads from it, and the attributes that it uses."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module == "accord":
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return names


def test_every_name_of_the_readme_has_a_type_test() -> None:
    text = README.read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    used = set().union(*map(names_in, blocks)) - {"executable"}
    assert {"Agent", "Turn", "connect", "ask", "Text", "ToolCall", "prompt"} <= used
    assert used - names_in(Path(__file__).read_text("utf-8")) == set()


def test_the_typed_agent_and_client_run() -> None:
    command = [sys.executable, __file__]
    lines = asyncio.run(talk(command))
    assert lines[0].endswith("] Greet")
    assert lines[-1] == "Hello! You wrote: Hello, agent!"
    assert ask(command).stop_reason == "end_turn"


if __name__ == "__main__":
    start()
