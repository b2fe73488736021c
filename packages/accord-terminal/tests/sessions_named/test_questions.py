"""Questions of the agent: who is asked, who has answered, and what if nobody can answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys

import pytest

from accord.client.elicitation import ElicitationForm
from accord_terminal.sessions import open_session
from accord_terminal.sessions.journal import NOT_ASKED, Answered, Asked
from cli.screen import at_a_terminal
from requirement import requirement
from sessions_named.machine import Machine, eventually

pytestmark = pytest.mark.slow

ACCORD = (sys.executable, "-m", "accord")


@requirement("R-NAMED-04")
@pytest.mark.parametrize("protocol", ["1", "2"])
def test_agent_gets_an_answer_if_nobody_can_fill_in_a_form(machine: Machine, protocol: str) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", protocol)
    for kind, said in (
        ("form", "The form was not filled in."),
        ("url", "The page was not opened."),
    ):
        ended = machine.run("session", "prompt", "-s", "fix", "--quiet", f"elicit {kind}")
        assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, said, "")
        ended = machine.run("session", "prompt", "-s", "fix", f"elicit {kind}")
        assert "the agent asked for input, which no client could give" in ended.stderr
        machine.ok("session", "prompt", "-s", "fix", "--no-wait", f"elicit {kind}")
    eventually(lambda: len([e for e in machine.entries() if isinstance(e, Answered)]) == 6)
    assert {e.by for e in machine.entries() if isinstance(e, Answered)} == {NOT_ASKED}


async def test_client_without_forms_is_not_asked(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    async with (
        open_session("fix", client_name="Ann") as shared,
        shared.session.prompt("elicit form") as turn,
    ):
        async with asyncio.timeout(30):
            await turn.wait()
        assert turn.text == "The form was not filled in."


async def test_form_whose_only_user_leaves_is_declined(machine: Machine) -> None:
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    shown = asyncio.Event()

    async def never(form: ElicitationForm) -> None:
        shown.set()
        await asyncio.Event().wait()

    async with (
        open_session("fix", client_name="Ann") as shared,
        asyncio.timeout(30),
        contextlib.AsyncExitStack() as bob,
    ):
        await bob.enter_async_context(open_session("fix", client_name="Bob", on_elicit_form=never))
        async with shared.session.prompt("elicit form") as turn:
            await shown.wait()
            await bob.aclose()
            await turn.wait()
        assert turn.text == "The form was not filled in."


async def test_open_question_is_visible(machine: Machine) -> None:
    """A client that is stopped, as on a laptop that sleeps, is waited for; others can answer."""
    machine.ok("session", "new", "-s", "fix", "--agent", "script")
    with at_a_terminal(
        *ACCORD, "session", "prompt", "-s", "fix", "permission", cwd=machine.work
    ) as person:
        await asyncio.to_thread(person.sees, "Choose 1 to")
        os.kill(person.program.pid, signal.SIGSTOP)
        (asked,) = [entry for entry in machine.entries() if isinstance(entry, Asked)]
        shown = await asyncio.to_thread(machine.ok, "session", "show", "-s", "fix")
        assert f"waits for: permission: {asked.title}" in shown
        row = json.loads(
            await asyncio.to_thread(machine.ok, "session", "show", "-s", "fix", "--json")
        )
        assert row["questions"] == [f"permission: {asked.title}"]
        async with open_session("fix", client_name="Bob", permissions=lambda _: "allow") as shared:
            async with asyncio.timeout(30):
                while (await shared.status()).questions:
                    await asyncio.sleep(0.01)
        os.kill(person.program.pid, signal.SIGCONT)
        await asyncio.to_thread(person.sees, "answered by Bob: allow_once")
        assert await asyncio.to_thread(person.leaves) == 0
        assert "1 of 1 allowed." in person.emulator.text
