"""The first screen of a new session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from accord import Agent, Session
from accord.agent import AgentAuthMethod, AuthenticationMixin
from accord.script_agent.agent import ScriptAgent
from accord_chat.sources import OwnAgent, SourceSetup
from chat.chats import LocalAgent, Typist, open_chat
from chat.forked import started_command
from needs import needs

KEYS = ("Enter", "Esc", "F1", "Ctrl+Q")
OTHER = "Another agent: Alt+N, or accord chat --agent NAME"
SIZES = [(60, 16), (200, 50)]


def script() -> LocalAgent:
    return LocalAgent(ScriptAgent(), label="reviewer")


def middle(user: Typist) -> list[str]:
    """Return the lines of the conversation."""
    region = user.view.region
    return user.screen.split("\n")[region.y : region.bottom]


@pytest.mark.parametrize("size", SIZES)
async def test_first_screen_says_who_answers_where_and_what_to_do(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    async with open_chat(script(), folder=folder, size=size) as user:
        await user.sees("reviewer · Small", "shop", "Try", "What is in this folder?", OTHER, *KEYS)
        lines = [line for line in middle(user) if line]
        at = next(n for n, line in enumerate(lines) if "Try" in line)
        assert [bool(line.strip()) for line in lines[at + 1 : at + 4]] == [True] * 3
        assert all(line.startswith("  ") and len(line) <= size[0] for line in lines)


async def test_first_screen_is_cut_where_there_is_no_room(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path, size=(20, 8)) as user:
        await user.until(lambda: user.session.session is not None)
        for size in ((30, 10), (60, 8), (20, 8)):
            await user.pilot.resize_terminal(*size)
            await user.until(lambda size=size: user.app.screen.size == size)
            assert len(user.screen.split("\n")) == size[1]
        await user.send("echo hello")
        await user.sees("hello")


async def test_first_screen_makes_room_for_the_first_prompt(tmp_path: Path) -> None:
    async with open_chat(script(), folder=tmp_path) as user:
        await user.sees(OTHER)
        user.view.styles.max_height = 5  # as a question leaves it
        await user.until(lambda: "Try" not in user.screen)
        user.view.styles.max_height = None
        await user.sees("Try", OTHER)
        await user.type("echo my words")
        assert OTHER in user.screen
        await user.press("enter")
        await user.sees("▌ echo my words")
        assert OTHER not in user.screen
        await user.press("f8")  # a new session has it again
        await user.sees(OTHER)
        await user.press("ctrl+pageup")
        await user.until(lambda: OTHER not in user.screen)


@needs("accord_coder")
async def test_demonstration_model_says_what_it_is(tmp_path: Path) -> None:
    command = started_command("-m", "accord", "agent")
    env = {"ACCORD_MODEL": "demo", "ACCORD_DATA": str(tmp_path / "data")}
    agent = OwnAgent("accord", command, SourceSetup(env=env))
    async with open_chat(agent, folder=tmp_path, size=(60, 16)) as user:
        await user.sees("accord · Demo", "not a language model", "help", "create", OTHER)
        await user.send("help")
        await user.until(lambda: OTHER not in user.screen)


async def test_agent_that_starts_slowly_is_named_at_once(tmp_path: Path) -> None:
    class Slow(Agent):
        async def open_session(self, session: Session) -> None:
            await started.wait()

    started = asyncio.Event()
    checked: list[asyncio.Task[None]] = []

    async with asyncio.TaskGroup() as tasks:

        async def look(user: Typist) -> None:
            await user.sees("reviewer", str(tmp_path.name), "starting", OTHER)
            assert "Try" not in user.screen
            started.set()

        async with open_chat(
            LocalAgent(Slow(), label="reviewer"),
            folder=tmp_path,
            at_open=lambda user: checked.append(tasks.create_task(look(user))),
        ) as user:
            await user.sees("Try", "What is in this folder?")
    assert checked


class Locked(AuthenticationMixin, Agent):
    """Needs a login."""

    auth_methods = (AgentAuthMethod("key", "Log in with a key"),)
    is_open = False

    def is_logged_in(self) -> bool:
        return self.is_open

    async def login(self, login_id: str) -> None:
        self.is_open = True

    async def logout(self) -> None:
        self.is_open = False


@pytest.mark.parametrize("size", [(60, 16), (80, 24)])
async def test_login_has_its_place_below_the_first_screen(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with open_chat(
        LocalAgent(Locked(), label="reviewer"), folder=tmp_path, size=size
    ) as user:
        await user.sees("Log in with a key")
        if size[1] >= 24:
            await user.sees("reviewer", tmp_path.name)
        await user.press("f10")
        await user.until(lambda: user.app.screen.query_one("LoginPanel").has_focus_within)
        await user.press("1")
        await user.sees("Try")


async def test_session_that_is_opened_again_shows_its_conversation(tmp_path: Path) -> None:
    agent = ScriptAgent()
    async with open_chat(LocalAgent(agent), folder=tmp_path) as user:
        await user.send("echo remember this")
        await user.sees("remember this")
        await user.until(lambda: not user.session.is_busy)
    async with open_chat(LocalAgent(agent), folder=tmp_path, restores=True) as user:
        assert user.session.has_prompts
        await user.until(lambda: user.session.session is not None)
        assert OTHER not in user.screen
