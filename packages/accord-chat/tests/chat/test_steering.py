"""What is written while the agent works: steered, queued or sent instead, and never lost."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accord import Agent, Turn
from accord_chat.model.saved import SavedChats
from chat.chats import HandAgent, LocalAgent, Typist, open_chat
from chat.forked import command
from chat.line_chats import LinesChat

VERSIONS = pytest.mark.parametrize("version", [1, 2])


class Listener(Agent):
    """Repeats what it hears while it works."""

    steering = True

    async def prompt(self, turn: Turn) -> None:
        if turn.text == "ask":
            async with turn.tool("Delete it") as call:
                allowed = await call.permission()
            await turn.say(f"allowed: {allowed}, heard {len(turn.take_steering())}")
            return
        await turn.say(f"working on {turn.text}")
        async for message in turn.steering():
            await turn.say(f"heard: {message.text}")
            if message.text.endswith("stop"):
                return


class Deaf(Agent):
    """Cannot be steered; `work` goes on until it is cancelled."""

    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"got: {turn.text}")
        if turn.text == "work":
            await asyncio.Event().wait()


@asynccontextmanager
async def working(
    agent: Agent, version: int, folder: Path, size: tuple[int, int] = (100, 30)
) -> AsyncGenerator[Typist]:
    """Open a chat in which the agent works on the prompt `work`."""
    async with open_chat(LocalAgent(agent, version=version), folder=folder, size=size) as user:
        await user.send("work")
        await user.sees("working on work" if agent.steering else "got: work")
        yield user


def rows(user: Typist, *texts: str) -> list[int]:
    """Return the rows of the screen in which the texts are, each once."""
    lines = user.screen.split("\n")
    return [next(n for n, line in enumerate(lines) if text in line) for text in texts]


@VERSIONS
async def test_message_is_shown_where_it_arrived_and_what_became_of_it(
    tmp_path: Path, version: int
) -> None:
    async with working(Listener(), version, tmp_path) as user:
        await user.type("leave it")
        await user.sees("Enter queues · Alt+S steers · Alt+C cancels and sends · Alt+M swaps them")
        await user.press("alt+s")
        await user.sees("heard: leave it", "↳ the agent has it")
        assert "Alt+S" not in user.screen
        shown = ("working on work", "▌ leave it", "↳ the agent has it", "heard: leave it")
        assert rows(user, *shown) == sorted(rows(user, *shown))
        assert not user.session.queue
        # Enter does what it did: it queues.
        await user.type("echo later")
        await user.press("enter")
        await user.sees("1 queued (Alt+Up takes back)")
        await user.press("up")  # the history has what was said
        assert user.composer.text == "leave it"
        user.composer.set_text("")
        await user.type("now stop")
        await user.press("alt+s")
        await user.sees("heard: now stop", "working on echo later")
        assert user.session.timeline.prompts == ["work", "leave it", "now stop", "echo later"]


async def test_choice_of_enter_is_remembered(tmp_path: Path) -> None:
    async with working(Listener(), 1, tmp_path) as user:
        await user.press("alt+m")
        await user.sees("While the agent works, Enter steers.")
        await user.type("first")
        await user.sees("Enter steers · Alt+Q queues")
        await user.press("enter")
        await user.sees("heard: first")
        await user.type("second")
        await user.press("alt+q")
        await user.sees("1 queued")
    async with working(Listener(), 1, tmp_path) as user:  # the next program
        await user.send("once more")
        await user.sees("heard: once more")
        await user.press("alt+m")
        await user.send("wait")
        await user.sees("1 queued")
    # A file that cannot be read is like none.
    (tmp_path / ".state" / "choices.json").write_text("{")
    async with working(Listener(), 1, tmp_path) as user:
        assert user.chat.choices.enter == "queue"


async def test_agent_that_cannot_be_steered_gets_it_next(tmp_path: Path) -> None:
    async with working(Deaf(), 1, tmp_path) as user:
        await user.type("next")
        await user.sees("Enter queues: the agent cannot be steered · Alt+C cancels and sends")
        await user.press("alt+s")
        await user.sees("Queued: the agent cannot be steered", "1 queued (Alt+Up takes back)")
        await user.press("alt+up")
        assert user.composer.text == "next"
        await user.press("alt+s")
        await user.sees("1 queued")
        await user.press("escape")
        await user.sees("got: next")


@VERSIONS
async def test_turn_is_cancelled_for_a_message(tmp_path: Path, version: int) -> None:
    async with working(Deaf(), version, tmp_path) as user:
        await user.type("instead")
        await user.press("alt+c")
        await user.sees("↳ the turn was cancelled for it", "got: [The user has interrupted")
        await user.until(lambda: user.session.state == "idle")
        assert user.session.timeline.prompts == ["work", "instead"]
    async with working(Listener(), version, tmp_path) as user:  # although it could be steered
        await user.type("instead stop")
        await user.press("alt+c")
        await user.sees("Cancelled", "working on instead stop")
        assert "heard" not in user.screen


async def test_agent_of_version_2_gets_a_second_prompt(tmp_path: Path) -> None:
    async with working(Deaf(), 2, tmp_path) as user:
        await user.type("also")
        await user.sees("Enter queues · Alt+S sends a second prompt")
        await user.press("alt+s")
        await user.sees("Queued: the agent runs it", "1 message on the way")
        await user.press("escape")
        await user.until(lambda: user.session.state == "idle" and not user.session.queue)
        assert user.screen.count("got: also") == 1


@VERSIONS
async def test_open_question_stays_open(tmp_path: Path, version: int) -> None:
    async with open_chat(LocalAgent(Listener(), version=version), folder=tmp_path) as user:
        await user.send("ask")
        await user.question()
        user.view.post_message(user.view.Left("not there"))  # goes to the prompt, and types
        await user.until(lambda: user.composer.text == "not there")
        await user.sees("Enter queues · Alt+S steers")
        assert "Alt+C" not in user.screen
        await user.press("alt+s")
        await user.until(lambda: "not there" in user.session.timeline.prompts)
        user.view.post_message(user.view.Left("instead"))
        await user.until(lambda: user.composer.text == "instead")
        await user.press("alt+c")
        await user.until(lambda: len(user.session.queue) == 1)
        assert len(user.session.questions) == 1
        assert user.session.state == "running"
        await user.press("f10")
        await user.question()
        await user.press("y")
        await user.sees("allowed: True, heard 1")


async def test_what_was_not_sent_is_queued_again_after_a_cancel(tmp_path: Path) -> None:
    meta = {"steering": {"supported": True}}
    agent = HandAgent(1, {"session/new": {"sessionId": "s"}, "session/prompt": ...})
    agent.results["initialize"]["_meta"] = meta
    agent.results["_session/steering"] = {}  # it does not say what became of it
    async with open_chat(agent, folder=tmp_path, size=(100, 30)) as user:
        await user.send("work")
        await user.until(lambda: agent.asked("session/prompt"))
        await user.type("kept")
        await user.press("alt+s")
        await user.sees("1 message on the way")
        # If the program is killed now, it is a draft.
        user.chat.save()
        (tab,) = SavedChats(tmp_path, tmp_path / ".state").load().tabs
        assert tab.queue == ["kept"]
        agent.results["_session/steering"] = ...
        await user.type("in flight")
        await user.press("alt+s")
        await user.sees("2 messages on the way")
        user.session.queue.hold()
        await user.press("escape")
        await user.until(lambda: agent.asked("session/cancel"))
        assert agent.raw is not None
        prompt = next(one for one in agent.requests if one.get("method") == "session/prompt")
        agent.raw.answer(prompt["id"], {"stopReason": "cancelled"})
        await user.until(lambda: user.session.state == "idle")
        assert [one.text for one in user.session.queue] == ["kept", "in flight"]
        await user.press("alt+up")
        assert user.composer.text == "in flight"


async def test_message_that_the_agent_refuses_is_queued(tmp_path: Path) -> None:
    class Refusing(Listener):
        async def steer(self, turn: Turn, message: object) -> None:
            raise ValueError("no")

    async with working(Refusing(), 1, tmp_path) as user:
        await user.type("kept")
        await user.press("alt+s")
        await user.sees("The agent refuses this while it works, so it is queued", "1 queued")


async def test_hint_fits_into_a_small_screen(tmp_path: Path) -> None:
    for agent, hint in (
        (Listener(), "Enter queues · Alt+S steers"),
        (Deaf(), "Enter queues: the agent cannot be steered"),
    ):
        folder = tmp_path / type(agent).__name__
        folder.mkdir()
        async with working(agent, 1, folder, (60, 16)) as user:
            await user.type("x")
            await user.sees(hint)
            assert max(map(len, user.screen.split("\n"))) <= 60


def test_lines_steer_and_queue_and_a_pipe_queues(tmp_path: Path) -> None:
    agent = shlex.join(command(str(Path(__file__).with_name("listening_agent.py"))))
    with LinesChat(tmp_path, "--agent", agent, terminal=True) as chat:
        chat.sees("is ready")
        chat.type("listen")
        chat.sees("Tool: Listening, running")
        chat.type("later")
        chat.sees("Note: queued as number 1. The agent is working.")
        chat.type(":steer leave it")
        chat.sees("Note: the agent has it.", "Heard leave it.")
        chat.type(":enter steer")
        chat.sees("a line says it to the agent; :later queues it")
        chat.type("stop")
        chat.sees("Heard stop.")
        chat.sees("Prompt later.")
        chat.type(":quit")
        assert chat.status() == 0
        assert "You: leave it" not in chat.text  # it is on the terminal already
    with LinesChat(tmp_path, "--agent", agent, "--new") as chat:
        chat.sees("is ready")
        chat.type("listen")
        chat.sees("Tool: Listening, running")
        chat.write(b":steer piped\nprompt\n:steer stop\n")
        chat.end_input()
        assert chat.status() == 0
        assert chat.text.index("Heard piped.") < chat.text.index("Heard stop.")
        assert "Prompt prompt." in chat.text  # although a line would steer at a terminal
