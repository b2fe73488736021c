"""`accord chat -s`: the queue of a shared session, its other clients, and who has answered."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import pytest

from accord.client.events import Decision, PermissionRequest
from accord_chat.chat import prepare
from accord_chat.sources import ChatOptions
from accord_chat.view.app import ChatApp
from accord_chat.view.permission_panel import PermissionPanel
from accord_terminal.sessions import open_session
from chat.chats import Typist, typing_at
from forked import forked_programs
from requirement import requirement
from sessions_named.machine import Machine, new_machine

pytestmark = pytest.mark.slow
VERSIONS = pytest.mark.parametrize("protocol", ["1", "2"])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Generator[Machine]:
    with forked_programs(), new_machine(monkeypatch) as found:
        yield found


@asynccontextmanager
async def chat_with(
    machine: Machine, protocol: str, size: tuple[int, int] = (120, 30)
) -> AsyncGenerator[Typist]:
    """Open the session `fix` of the script agent in a chat."""
    machine.ok("session", "new", "-s", "fix", "--agent", "script", "--protocol", protocol)
    start = prepare(ChatOptions(shared_name="fix", cwd=machine.work))
    try:
        async with typing_at(ChatApp(start.make_chat), size) as user:
            await user.until(lambda: user.session.state == "idle")
            # Nothing is translated, so that nothing is lost.
            assert (await user.session.link.agent()).version == int(protocol)
            yield user
    finally:
        start.saved.release()


async def undecided(request: PermissionRequest) -> Decision | None:
    await asyncio.Event().wait()
    return None


@requirement("R-NAMED-04")
async def test_prompts_of_others_are_seen_and_withdrawn(machine: Machine) -> None:
    async with chat_with(machine, "2") as user:
        assert user.session.link.shared is not None
        async with open_session("fix", client_name="Ann's script", decides=False) as ann:
            await user.sees("with 1 client: Ann's script")
            await ann.submit("wait forever")
            await user.sees("Ann's script: wait forever")
            await ann.submit("echo never said")
            await user.sees("1 prompt of others (F7)")
            await user.press("f7")
            await user.sees("wait forever  running · Ann's script", "queued · Ann's script")
            await user.type("never")
            await user.press("enter")
            await user.sees("Leave it", "Withdraw it")
            await user.press("down", "enter")
            await user.until(lambda: "of others" not in user.screen)
            assert [one.text for one in (await ann.status()).queue] == ["wait forever"]
            await user.press("f7")
            await user.sees("running · Ann's script")
            await user.press("enter")
            await user.sees("Cancel its turn")
            await user.press("down", "enter")
            await user.until(lambda: "Ann's script: wait" not in user.screen)
            assert (await ann.status()).queue == ()
        await user.until(lambda: "Ann's script" not in user.screen.split("\n")[-4])


@requirement("R-NAMED-04")
async def test_own_prompt_waits_for_others_and_is_edited(machine: Machine) -> None:
    async with (
        chat_with(machine, "1") as user,
        open_session("fix", client_name="Ann", decides=False) as ann,
    ):
        await ann.submit("wait forever")
        await user.sees("Ann: wait forever")
        await user.send("echo mine")
        await user.sees("waiting for 1 prompt")
        queue = (await ann.status()).queue
        assert [one.by.startswith("accord chat (") for one in queue] == [False, True]
        await user.press("f7")
        await user.sees("echo mine  queued · you")
        await user.type("mine")
        await user.press("enter")
        await user.until(lambda: user.composer.text == "echo mine")
        await user.until(lambda: not user.session.is_busy)
        assert [one.by for one in (await ann.status()).queue] == ["Ann"]
        await ann.withdraw((await ann.status()).queue[0].prompt_id)
        await user.until(lambda: "Ann: wait" not in user.screen)
        await user.press("enter")
        await user.sees("  mine")


@requirement("R-NAMED-02")
@VERSIONS
async def test_answers_of_others_are_said_and_a_killed_owner_is_started_again(
    machine: Machine, protocol: str
) -> None:
    may_answer = asyncio.Event()

    async def decide(request: PermissionRequest) -> Decision | None:
        await may_answer.wait()
        return "allow"

    async with chat_with(machine, protocol) as user:
        async with open_session("fix", client_name="Ann", permissions=decide):
            await user.send("permission")
            await user.question()
            await user.press("y")
            await user.sees("1 of 1 allowed.")
            assert "Answered by" not in user.screen

            await user.send("permission")
            await user.question()
            may_answer.set()
            await user.sees("Answered by Ann", "(Do thing 1)")
            await user.until(lambda: not user.app.screen.query(PermissionPanel))
            await user.until(lambda: not user.session.is_busy)

        os.kill(machine.owner(), signal.SIGKILL)
        await user.sees("Ctrl+R starts it again")
        await user.press("ctrl+r")
        await user.until(lambda: user.session.state == "idle")
        async with open_session("fix", client_name="Ann", decides=False):
            await user.sees("with 1 client: Ann")
        await user.send("echo after")
        await user.sees("  after")


@requirement("R-SUBAG-05")
async def test_subagents_arrive_and_one_is_cancelled(machine: Machine) -> None:
    async with chat_with(machine, "2") as user:
        await user.send("subagent forever")
        await user.until(lambda: user.session.transcript.subagents)
        await user.press("alt+a")
        await user.sees("◐ working  A subagent")
        await user.press("c")
        await user.sees("⊘ cancelled  A subagent")
        await user.press("escape")
        await user.sees("The subagent was cancelled; the turn continues.")


async def test_subagent_of_version_1_is_a_tool_call(machine: Machine) -> None:
    """Clients of version 1 announce that they show subagents, and not all of them do."""
    async with chat_with(machine, "1") as user:
        await user.send("subagent one")
        await user.sees("A subagent", "The subagent is done.")


@requirement("R-NAMED-04")
@VERSIONS
async def test_who_has_said_something_is_noted_at_the_message(
    machine: Machine, protocol: str
) -> None:
    async with (
        chat_with(machine, protocol) as user,
        open_session("fix", client_name="Ann", decides=False) as ann,
    ):
        await user.send("listen")
        await user.sees("I am listening.")
        await ann.session.steer("from Ann")
        await user.sees("▌ from Ann", "↳ Ann: the agent has it", "I heard: from Ann")
        await user.type("from here")
        await user.sees("Enter queues · Alt+S steers")
        await user.press("alt+s")
        await user.sees("↳ the agent has it", "I heard: from here")
        assert user.screen.count("▌ from here") == 1
        await ann.session.steer("stop")
        await user.sees("I have stopped.")
        # The turn of another client can be steered, too.
        await ann.submit("listen")
        await user.sees("Ann: listen")
        await user.type("into the turn of Ann")
        await user.sees("Enter queues · Alt+S steers")
        await user.press("alt+s")
        await user.sees("I heard: into the turn of Ann")
        await user.until(lambda: user.screen.count("▌ into the turn of Ann") == 1)
        await user.type("stop")
        await user.press("alt+s")
        await user.until(lambda: user.screen.count("I have stopped.") == 2)
