"""What is said in a running turn of a session: by a command, by editors, and who has said it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Literal

import pytest

import accord
from accord_terminal.sessions import open_session
from accord_terminal.sessions.journal import Entry, Queued, Steered
from requirement import requirement
from sessions_named.machine import Machine, eventually
from sessions_named.test_clients import attached, until

pytestmark = pytest.mark.slow
BOTH = pytest.mark.parametrize("protocol", ["1", "2"])
DEAF = [sys.executable, str(Path(__file__).with_name("deaf_agent.py"))]


def listening(machine: Machine, protocol: str = "1", agent: str = "script") -> None:
    """Start a turn of the session `fix` in which the agent listens."""
    machine.ok("session", "new", "-s", "fix", "--agent", agent, "--protocol", protocol)
    machine.ok("session", "prompt", "-s", "fix", "--no-wait", "listen")
    eventually(lambda: "I am listening." in "".join(machine.texts()))


def steer(machine: Machine, *words: str, stdin: str = "") -> tuple[int, str]:
    ended = machine.run("session", "steer", "-s", "fix", *words, stdin=stdin)
    return ended.returncode, ended.stdout + ended.stderr


@BOTH
def test_command_says_it_to_the_running_turn(machine: Machine, protocol: str) -> None:
    listening(machine, protocol)
    assert steer(machine, "leave", "the", "slow", "ones") == (0, "the agent has it\n")
    status, said = steer(machine, "--json", "-", stdin="from standard input\n")
    assert status == 0
    assert json.loads(said) == {
        "outcome": "injected",
        "by": "agent",
        "sessionId": machine.record().id,
    }
    assert steer(machine, "stop")[0] == 0
    eventually(lambda: "I have stopped." in "".join(machine.texts()))
    whole = "".join(machine.texts())
    assert whole.index("I heard: leave the slow ones") < whole.index("I heard: from standard")
    shown = machine.ok("session", "history", "-s", "fix")
    # Who has said it, at the place where it arrived.
    line = "< accord session steer: leave the slow ones (the agent has it)\n"
    assert shown.index("I am listening.") < shown.index(line) < shown.index("I heard: leave")
    page = machine.ok("session", "export", "-s", "fix")
    assert page.index("I am listening.") < page.index("leave the slow ones")
    assert page.count("> **You:** leave the slow ones") == page.count("leave the slow ones") - 1


def test_errors_say_what_is_possible(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    status, said = steer(machine, "stop")
    assert (status, said) == (
        1,
        "accord session: No turn of the session fix is running. To send it as a prompt, type "
        "`accord session prompt -s fix …`\n",
    )
    assert steer(machine, "  ") == steer(machine, "-", stdin="\n")
    status, said = steer(machine, "  ")
    assert status == 2
    assert "Expected a TEXT, got an empty one" in said
    assert steer(machine, "--fallback", "now", "stop")[0] == 2
    assert machine.run("session", "steer", "-s", "none", "stop").returncode == 4
    os.kill(machine.owner(), signal.SIGTERM)
    eventually(lambda: machine.owners() == [])
    assert steer(machine, "stop")[0] == 1
    machine.ok("session", "close", "-s", "fix")
    assert steer(machine, "stop")[0] == 4


def test_text_for_an_agent_that_cannot_be_steered_is_a_prompt(machine: Machine) -> None:
    listening(machine, agent=" ".join(DEAF))
    status, said = steer(machine, "then", "this")
    assert status == 0
    assert said.startswith("queued: the agent cannot be steered (prompt p-")
    assert "then this" in machine.ok("session", "show", "-s", "fix")
    # Cancel and continue; the queued one follows.
    assert steer(machine, "--fallback", "cancel", "now", "this") == (
        0,
        "the turn was cancelled for it\n",
    )
    eventually(lambda: "got: then this" in "".join(machine.texts()))
    first, second = "".join(machine.texts()).split("got: ")[1:]
    assert "The user has interrupted your work" in first
    assert "now this" in first
    assert second == "then this"
    (entry,) = [one for one in machine.entries() if isinstance(one, Steered)]
    assert (entry.outcome, entry.text) == ("restarted", "now this")


def test_open_question_is_not_cancelled_for_a_message(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", " ".join(DEAF))

    async def scenario() -> None:
        asked, answer = asyncio.Event(), asyncio.Event()

        async def decide(request: accord.PermissionRequest) -> Literal["allow"]:
            asked.set()
            await answer.wait()
            return "allow"

        async with open_session("fix", client_name="Ann", permissions=decide) as ann:
            async with ann.session.prompt("ask") as turn:
                await asked.wait()
                said = await ann.steer("not now", fallback="cancel")
                assert (said.outcome, said.by) == ("queued", "session")
                assert said.reason.endswith("a question to the user is open")
                answer.set()
                assert await turn.wait() == "end_turn"
            assert "allowed" in turn.text
            await until(lambda: "got: not now" in ann.session.transcript.text)

    asyncio.run(scenario())


@requirement("R-NAMED-04")
@BOTH
async def test_everyone_sees_who_has_said_it(machine: Machine, protocol: str) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", protocol)
    entries: list[Entry] = []

    def users(session: accord.ClientSession) -> list[str]:
        return [m.text for m in session.transcript.messages if m.role == "user"]

    async with (
        open_session("fix", client_name="Ann") as ann,
        open_session(
            "fix", client_name="Bob", on_entry=lambda _cursor, entry: entries.append(entry)
        ) as bob,
        attached(1) as editor,
        attached(2) as other,
    ):
        (listed,) = [info async for info in editor.list_sessions()]
        old = await editor.load_session(listed.id, machine.work)
        new = await other.load_session(listed.id, machine.work)
        async with ann.session.prompt("listen") as turn:
            await until(lambda: "listening" in bob.session.transcript.text)
            # By the client whose prompt it is, by another one, and by an editor.
            assert (await turn.steer("mine")).outcome == "injected"
            assert (await bob.session.steer("his")).outcome == "injected"
            assert (await old.steer("old")).outcome == "injected"
            assert (await new.steer("new")).outcome == "injected"
            await turn.steer("stop")
            await turn.wait()
        said = ["listen", "mine", "his", "old", "new", "stop"]
        for session in (ann.session, bob.session, old, new):
            await until(lambda: "stopped" in session.transcript.text)  # noqa: B023
            assert users(session) == said
        heard = [f"I heard: {text}" for text in said[1:-1]]
        assert [turn.text.index(text) for text in heard] == sorted(map(turn.text.index, heard))
        steered = [entry for entry in entries if isinstance(entry, Steered)]
        assert [entry.by for entry in steered][:2] == ["Ann", "Bob"]
        assert [entry.text for entry in steered] == said[1:]
        # A client that loads the session later sees the same.
        async with open_session("fix") as late:
            assert users(late.session) == said


async def test_message_arrives_once_if_its_client_disconnects(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    sent = [f"from {number}" for number in range(8)]
    async with (
        open_session("fix", client_name="Ann") as ann,
        ann.session.prompt("listen") as turn,
    ):
        await until(lambda: turn.text)
        for text in sent:
            async with open_session("fix", client_name="Bob") as bob:
                call = asyncio.ensure_future(bob.session.steer(text))
                for _ in range(3):  # it is written, and the owner has not answered
                    await asyncio.sleep(0)
                assert not call.done()
            await asyncio.wait([call])
        await turn.steer("stop")
        await turn.wait()
    heard = [line for line in turn.text.split("\n") if line.startswith("I heard: from")]
    assert heard == [f"I heard: {text}" for text in sent]
    steered = [entry.text for entry in machine.entries() if isinstance(entry, Steered)]
    assert steered == [*sent, "stop"]


async def test_message_without_a_turn_is_no_second_prompt(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    async with attached(1) as editor:
        (listed,) = [info async for info in editor.list_sessions()]
        session = await editor.load_session(listed.id, machine.work)
        with pytest.raises(accord.LocalProtocolError, match="No turn of this session is running"):
            await session.steer("hello")
        # A client that does not send the prompt itself gets a turn that has an owner.
        params = {"sessionId": session.id, "prompt": [{"type": "text", "text": "echo begun"}]}
        found = await editor.call_extension("_session/steering", params)
        assert found == {"outcome": "startedNewTurn"}
        await until(lambda: "begun" in session.transcript.text)
        for bad in ({}, params | {"prompt": []}, params | {"sessionId": "other"}):
            with pytest.raises(accord.RequestError):
                await editor.call_extension("_session/steering", bad)
    assert [e.text for e in machine.entries() if isinstance(e, Queued)] == ["echo begun"]
