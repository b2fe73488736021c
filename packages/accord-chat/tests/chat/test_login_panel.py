"""Logging in to an agent from the chat: by the agent, by variables, once for all its sessions."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from accord import Agent, Turn
from accord.agent import AgentAuthMethod, AuthenticationMixin
from accord.errors import InvalidRequest
from accord_chat.agent_link import login_variables
from accord_chat.sources import OwnAgent, SourceSetup
from chat.chats import LocalAgent, Typist, open_chat
from requirement import requirement

VERSIONS = pytest.mark.parametrize("version", [1, 2])


class Guarded(AuthenticationMixin, Agent):
    """Is used after a login; one of its logins waits for something that never comes."""

    auth_methods = (
        AgentAuthMethod("browser", "In the browser", description="Opens a page"),
        AgentAuthMethod("endless", "By a friend"),
        AgentAuthMethod("refused", "By fax"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.logins: list[str] = []
        self.is_open = False

    def is_logged_in(self) -> bool:
        return self.is_open

    async def login(self, login_id: str) -> None:
        self.logins.append(login_id)
        if login_id == "refused":
            raise InvalidRequest("no paper")
        if login_id == "endless":
            await asyncio.Event().wait()
        self.is_open = True

    async def logout(self) -> None:
        self.is_open = False

    async def prompt(self, turn: Turn) -> None:
        await turn.say(f"Hello {turn.text}")


def guarded(agent: Guarded | None = None, version: int = 2) -> LocalAgent:
    return LocalAgent(agent or Guarded(), version=version, label="guarded")


async def choose(user: Typist, number: int) -> None:
    """Choose a login by its number."""
    await user.sees("needs a login", f" {number} ")
    await user.press("f10")
    await user.until(lambda: user.app.screen.query_one("LoginPanel").has_focus_within)
    await user.press(str(number))


@VERSIONS
@requirement("R-AUTH-12")
async def test_what_was_refused_is_done_after_the_login(tmp_path: Path, version: int) -> None:
    async with open_chat(guarded(version=version), folder=tmp_path) as user:
        await user.sees("guarded needs a login", " 1  In the browser  Opens a page")
        await user.sees("the agent logs in by itself", "logging in")
        user.session.send("from before")
        await choose(user, 1)
        await user.sees("Logged in", "  Hello from before")


async def test_session_goes_on_after_a_login_for_a_prompt(tmp_path: Path) -> None:
    agent = Guarded()
    agent.is_open = True
    async with open_chat(guarded(agent), folder=tmp_path) as user:
        await user.send("one")
        await user.sees("  Hello one")
        before = user.session.session_id
        agent.is_open = False
        await user.send("two")
        await choose(user, 1)
        await user.sees("  Hello one", "  Hello two")
        assert user.session.session_id == before


async def test_login_is_declined_cancelled_or_refused_and_tried_again(tmp_path: Path) -> None:
    agent = Guarded()
    async with open_chat(guarded(agent), folder=tmp_path) as user:
        await user.sees("guarded needs a login")
        panel = await user.until(lambda: next(iter(user.app.screen.query("LoginPanel")), None))
        await user.until(lambda: panel.has_focus_within)
        await user.press("enter", "h", "i")  # none of them is a login
        await user.until(lambda: user.composer.text == "hi")
        await user.press("f10")
        await user.until(lambda: panel.has_focus_within)
        await user.press("escape")
        await user.sees("The agent is running, but the session is not open", "Ctrl+R tries again")
        assert agent.logins == []
        await user.press("ctrl+r")
        await choose(user, 2)
        await user.sees("logging in with By a friend: the agent waits for it · Esc cancels")
        await user.until(lambda: agent.logins == ["endless"])
        await user.press("escape")
        await user.sees("The login 'By a friend' was cancelled", "Ctrl+R tries again")
        await user.press("ctrl+r")
        await choose(user, 3)
        await user.sees("no paper", "Ctrl+R tries again")
        await user.press("ctrl+r")
        await choose(user, 1)
        await user.until(lambda: user.session.state == "idle")


async def test_other_sessions_of_the_agent_wait_for_the_one_login(tmp_path: Path) -> None:
    agent = Guarded()
    async with open_chat(guarded(agent), folder=tmp_path) as user:
        await user.sees("guarded needs a login")
        other = user.chat.open_session("guarded")
        await user.sees("waiting for the login in another tab")
        await user.press("alt+1")
        assert other.state == "logging_in"
        await choose(user, 1)
        await user.until(lambda: [one.state for one in user.chat.sessions] == ["idle", "idle"])
        assert agent.logins == ["browser"]


LEGACY = """
import json, os, sys
for line in sys.stdin:
    call = json.loads(line)
    if call["method"] == "initialize":
        variables = [{"name": "SERVICE_KEY", "secret": True}, {"name": "REGION", "optional": True}]
        result = {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": [
            {"id": "key", "name": "API key", "type": "env_var", "vars": variables}]}
    elif call["method"] == "authenticate":
        result, open_ = {}, True
    elif "open_" in globals():
        result = {"sessionId": "s"}
    else:
        result = None
    answer = {"jsonrpc": "2.0", "id": call["id"]}
    if result is None:
        answer["error"] = {"code": -32000, "message": "no key"}
    else:
        answer["result"] = result
    print(json.dumps(answer), flush=True)
"""


@requirement("R-AUTH-24")
async def test_variables_of_a_legacy_login_are_named_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "legacy.py"
    program.write_text(LEGACY)
    source = OwnAgent("legacy", [sys.executable, str(program)], SourceSetup())
    monkeypatch.delenv("SERVICE_KEY", raising=False)
    async with open_chat(source, folder=tmp_path) as user:
        await user.sees("needs SERVICE_KEY: not set")
        await choose(user, 1)
        await user.sees("needs SERVICE_KEY in the environment", "Ctrl+R tries again")
        monkeypatch.setenv("SERVICE_KEY", "hunter2")
        await user.press("ctrl+r")
        await user.sees("needs SERVICE_KEY: set")
        assert "hunter2" not in user.screen
        await choose(user, 1)
        await user.until(lambda: user.session.state == "idle")
        assert "hunter2" not in user.screen


FRAMES = {
    b'{"result":{"authMethods":[{"id":"a","type":"env_var","varName":"A"}]}}': {"a": ("A",)},
    b'{"result":{"authMethods":[{"id":"a","type":"env_var","vars":[{"name":"A B"}]}]}}': {},
    b'{"result":{"authMethods":[{"id":1,"type":"env_var","vars":3}, 4, "env_var"]}}': {},
    b'{"result":{"authMethods":[{"id":"a","type":"agent"}]}}': {},
    b'["env_var"]': {},
    b'{"env_var': {},
}


def test_variables_are_read_leniently() -> None:
    assert {frame: login_variables(frame) for frame in FRAMES} == FRAMES
