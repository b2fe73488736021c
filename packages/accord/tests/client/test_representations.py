"""The representation of sessions, turns and transcripts in consoles and notebooks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import accord
from accord import (
    Agent,
    ClientSession,
    LocalProtocolError,
    Plan,
    PlanEntry,
    Turn,
    connect,
    serve,
)
from accord.agent import AuthenticationMixin, ProvidersMixin
from accord.client.ask import AskResult
from accord.client.events import Compaction, Text, Thought, TitleChanged, ToolCall, UserText
from accord.client.transcript import Transcript
from accord.transports.memory import pair
from client.wire_agents import BOTH, Speaker, agent_by_hand, opened, session_with

LONG = "word " * 10_000


async def greet(speaker: Speaker) -> None:
    await speaker.say("Hello **there**")


def transcript(text: str = "Hello") -> Transcript:
    return Transcript.from_events(
        [
            TitleChanged(text),
            UserText("Hi\nyou", "u"),
            Thought("hm", "t"),
            ToolCall(id="1", title="Read `a`\nb", status="completed"),
            ToolCall(id="2", kind="edit", status="failed"),
            Text(text, "a"),
            Compaction(id="c", status="completed"),
            Plan((PlanEntry("one", "completed"), PlanEntry("two"))),
        ]
    )


@BOTH
async def test_reprs_contain_the_type_and_the_state(version: int) -> None:
    async with session_with(version, greet) as session:
        assert repr(session).startswith("<ClientSession 's1' in '/work'")
        turn = session.prompt("Hi")
        assert repr(turn) == "<ClientTurn of session 's1': not entered, ''>"
        async with turn:
            await turn.wait()
        assert repr(turn) == "<ClientTurn of session 's1': end_turn, 'Hello **there**'>"
        assert repr(session) == "<ClientSession 's1' in '/work', idle>"
        assert repr(session.transcript) == "<Transcript: messages: 2, tool calls: 0, idle>"
        assert turn._repr_markdown_() == "Hello **there**"
        assert session._repr_markdown_() == "> **User:** Hi\n\nHello **there**"


async def test_repr_of_an_agent_names_it() -> None:
    async with agent_by_hand(1) as (agent, raw):
        await opened(agent, raw)
        assert repr(agent) == "<ConnectedAgent 'raw' '1', protocol version 1>"


async def test_reprs_of_agent_classes_contain_the_state() -> None:
    seen: list[str] = []

    class Greeter(Agent):
        async def prompt(self, turn: Turn) -> None:
            seen.extend(map(repr, (self, turn.session, turn)))

    here, there = pair()
    agent = Greeter()

    serving = asyncio.ensure_future(serve(agent, there))
    async with connect(here, versions=(1,)) as connected:
        session: ClientSession = await connected.new_session("/here")
        async with session.prompt("Hi " + LONG):
            pass
    await serving
    of_agent, of_session, of_turn = seen
    assert of_agent == "<Greeter, clients: 1>"
    assert of_session == f"<Session {session.id!r} in '/here', running>"
    assert of_turn.startswith(f"<Turn of session {session.id!r}, running: 'Hi word word")


def test_reprs_are_short() -> None:
    whole = transcript(LONG)
    answer = AskResult(text=LONG, stop_reason="end_turn", transcript=whole)
    things: list[Any] = [whole, answer, *whole.messages]
    assert all(len(repr(thing)) < 300 for thing in things)


def test_transcript_is_shown_as_markdown() -> None:
    assert transcript()._repr_markdown_() == (
        "> **User:** Hi\n> you\n\n"
        "> *hm*\n\n"
        "✓ `Read 'a'\\nb`\n\n"
        "✗ `edit`\n\n"
        "Hello\n\n"
        "*Compaction of the conversation: completed*\n\n"
        "- [x] one\n- [ ] two"
    )


@pytest.mark.parametrize(
    ("stop_reason", "shown"),
    [("end_turn", "Hi"), ("max_tokens", "Hi\n\n*Stopped: max_tokens*")],
)
def test_ask_result_is_shown_as_markdown(stop_reason: Any, shown: str) -> None:
    answer = AskResult(text="Hi", stop_reason=stop_reason, transcript=Transcript())
    assert answer._repr_markdown_() == shown


async def test_completion_shows_what_programs_use() -> None:
    async with session_with(1, greet) as session, session.prompt("Hi") as turn:
        await turn.wait()
        of_turn = {name for name in dir(turn) if not name.startswith("_")}
        of_session = {name for name in dir(session) if not name.startswith("_")}
        of_transcript = {name for name in dir(session.transcript) if not name.startswith("_")}
    assert of_turn == {
        *("cancel", "error", "meta", "steer", "stop_reason", "text", "token_usage", "tool_calls"),
        *("unconfirmed", "unsent", "wait"),
    }
    assert of_session == {
        *("archive", "cancel", "cancel_terminal", "cancel_tool_call", "close", "cwd"),
        *("directories", "events", "id", "prompt", "set_mode", "set_option", "set_title"),
        *("status", "steer", "subagent", "transcript"),
    }
    assert of_transcript == {
        *("commands", "items", "mode", "mode_option", "options", "plan", "plans", "prompt_count"),
        *("state", "subagents", "terminals", "title", "updated_at", "usage"),
        *("compaction", "message", "messages", "session_message", "text"),
        *("open_tool_calls", "tool_call", "tool_calls"),
        *("apply", "events", "from_events"),
    }
    names = [name for name in dir(accord) if not name.startswith("_")]
    assert set(names) <= set(vars(accord)["__all__"])


def test_completion_of_the_mixins_shows_what_agents_use() -> None:
    of_auth = {name for name in dir(AuthenticationMixin) if not name.startswith("_")}
    assert of_auth == {
        *("auth_methods", "auth_status", "check_auth", "is_logged_in", "login", "logout"),
        "notify_auth_status",
    }
    of_providers = {name for name in dir(ProvidersMixin) if not name.startswith("_")}
    assert of_providers == {"disable_provider", "list_providers", "set_provider"}


async def test_mistakes_with_turns_and_results_name_the_cure() -> None:
    async with session_with(1, greet) as session:
        with pytest.raises(TypeError, match="`async with session"), session.prompt("Hi"):  # type: ignore[attr-defined]
            pass
        with pytest.raises(TypeError, match="async for event in turn"):
            list(session.prompt("Hi"))  # type: ignore[call-overload]
        with pytest.raises(LocalProtocolError, match="no option 'x', nor any other"):
            await session.set_option("x", "y")
    with pytest.raises(TypeError, match=r"accord\.ask\(…\) is not awaited"):
        await AskResult(text="", stop_reason="end_turn", transcript=Transcript())  # type: ignore[misc]


async def test_tool_calls_of_a_turn_are_those_that_began_in_it() -> None:
    calls = iter("ab")

    async def work(speaker: Speaker) -> None:
        await speaker.show(speaker.types.ToolCall(tool_call_id=next(calls), title="T"))

    async with session_with(1, work) as session:
        turn = session.prompt("Hi")
        assert turn.tool_calls == []
        async with turn:
            pass
        async with session.prompt("Again") as other:
            pass
        assert [[call.id for call in one.tool_calls] for one in (turn, other)] == [["a"], ["b"]]
