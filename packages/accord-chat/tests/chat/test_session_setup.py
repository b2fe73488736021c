"""What chats give to every session, and show of it: MCP servers, models, plans."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from accord import Agent, MemoryStore, PlanEntry, Session, Turn
from accord.types.mcp import McpServerHttp, McpServerStdio
from accord_chat.chat import prepare
from accord_chat.model.conversation import Remark
from accord_chat.sources import ChatOptions
from accord_chat.view.app import ChatApp
from accord_chat.view.pick_screen import PickScreen
from accord_chat.view.text_views import ViewerScreen
from chat.chats import HandAgent, LocalAgent, open_chat, typing_at
from chat.forked import started_command
from quirk import quirk

VERSIONS = pytest.mark.parametrize("version", [1, 2])
SERVERS = (
    McpServerStdio("files", "/usr/bin/true", ("--root", ".")),
    McpServerHttp("tickets", "https://tickets.example/mcp"),
)


MCP_2 = {"http": {}, "stdio": {}}


class Reporter(Agent):
    """Says which MCP servers its session has."""

    mcp_transports = frozenset({"stdio", "http"})

    def __init__(self) -> None:
        self.opened: list[tuple[str, ...]] = []

    async def open_session(self, session: Session) -> None:
        self.opened.append(tuple(server.name for server in session.mcp_servers))

    async def prompt(self, turn: Turn) -> None:
        await turn.set_title(turn.text)
        names = " and ".join(server.name for server in turn.session.mcp_servers)
        await turn.say(f"Servers: {names}.")


@VERSIONS
async def test_new_and_loaded_sessions_get_the_mcp_servers(tmp_path: Path, version: int) -> None:
    agent = Reporter()
    agent.store = MemoryStore()

    def source() -> LocalAgent:
        return LocalAgent(agent, version=version, mcp_servers=SERVERS)

    async with open_chat(source(), folder=tmp_path) as user:
        await user.send("which?")
        await user.sees("Servers: files and tickets.")
        await user.press("f8")  # a second one
        await user.until(lambda: len(user.chat.sessions) == 2 and user.session.state == "idle")
        await user.send("which?")
        await user.sees("Servers: files and tickets.")
    async with open_chat(source(), folder=tmp_path, restores=True) as user:
        await user.sees("▌ which?", "Servers: files and tickets.")
        await user.until(lambda: all(one.state == "idle" for one in user.chat.sessions))
        assert len(user.chat.sessions) == 2
        await user.send("and now?")
        await user.sees("▌ and now?")
        await user.until(lambda: user.screen.count("Servers: files and tickets.") == 2)
    assert set(agent.opened) == {("files", "tickets")}
    assert len(agent.opened) == 4


@VERSIONS
async def test_resumed_session_gets_the_mcp_servers(tmp_path: Path, version: int) -> None:
    """An agent of version 1 that resumes only, and one of version 2, whose sessions all do."""
    session: dict[str, Any] = {"resume": {}} if version == 1 else {"mcp": MCP_2}
    abilities = {"sessionCapabilities": session, "mcpCapabilities": {"http": True}}
    key, value = (
        ("agentCapabilities", abilities) if version == 1 else ("capabilities", {"session": session})
    )
    source = HandAgent(version, {"session/new": {"sessionId": "s1"}, "session/resume": {}})
    source.results["initialize"][key] = value
    source.setup = type(source.setup)(protocol=source.setup.protocol, mcp_servers=SERVERS)
    async with open_chat(source, folder=tmp_path) as user:
        user.session.has_prompts = True
        await source.lose()
        await user.sees("Ctrl+R starts it again")
        await user.press("ctrl+r")
        await user.until(lambda: user.session.state == "idle")
    for method in ("session/new", "session/resume"):
        (params,) = source.asked(method)
        assert [server["name"] for server in params["mcpServers"]] == ["files", "tickets"]


@VERSIONS
async def test_session_is_opened_without_servers_that_the_agent_cannot_use(
    tmp_path: Path, version: int
) -> None:
    source = HandAgent(version, {"session/new": {"sessionId": "s1"}})
    if version == 2:
        source.results["initialize"]["capabilities"] = {"session": {"mcp": {"stdio": {}}}}
    source.setup = type(source.setup)(protocol=source.setup.protocol, mcp_servers=SERVERS)
    async with open_chat(source, folder=tmp_path) as user:
        await user.sees("Without the MCP server tickets: the agent does not support http")
        assert user.session.state == "idle"
    (params,) = source.asked("session/new")
    assert [server["name"] for server in params["mcpServers"]] == ["files"]


PROGRAM = """
import accord


class Reporter(accord.Agent):
    mcp_transports = frozenset({"stdio", "http"})

    async def prompt(self, turn):
        await turn.say("Servers: " + " and ".join(one.name for one in turn.session.mcp_servers))


Reporter().run()
"""


@pytest.mark.parametrize("files", [(), ("mine.json", "other.json")])
async def test_mcp_servers_come_from_the_command_line_else_from_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("team", "mine", "other"):
        entry = {"url": f"https://{name}.example/mcp"}
        (tmp_path / f"{name}.json").write_text(json.dumps({"mcpServers": {name: entry}}))
    program = tmp_path / "reporter.py"
    program.write_text(PROGRAM)
    command = json.dumps(started_command(str(program)))
    (tmp_path / "settings.toml").write_text(
        f'[agents.reporter]\ncommand = {command}\nmcp = "team.json"\n'
    )
    mcp_files = tuple(tmp_path / name for name in files)
    start = prepare(ChatOptions(agent="reporter", cwd=tmp_path, mcp_files=mcp_files))
    try:
        async with typing_at(ChatApp(start.make_chat)) as user:
            await user.send("which?")
            expected = " and ".join(file.stem for file in mcp_files) or "team"
            await user.sees(f"Servers: {expected}")
    finally:
        start.saved.release()


@quirk("set-model")
async def test_models_of_an_early_agent_are_in_the_list_of_options(tmp_path: Path) -> None:
    known = [
        {"modelId": "quick", "name": "Quick 2"},
        {"modelId": "deep", "name": "Deep 1", "description": "Takes its time"},
    ]
    models = {"currentModelId": "quick", "availableModels": known}
    source = HandAgent(
        1, {"session/new": {"sessionId": "s1", "models": models}, "session/set_model": {}}
    )
    async with open_chat(source, folder=tmp_path) as user:
        await user.sees("Quick 2")
        await user.press("f2")
        await user.until(lambda: isinstance(user.app.screen, PickScreen))
        await user.sees("✓ Model: Quick 2", "Model: Deep 1  Takes its time")
        await user.type("deep")
        await user.press("enter")
        await user.until(lambda: "Deep 1" in user.screen and "Quick 2" not in user.screen)
    assert source.asked("session/set_model") == [{"sessionId": "s1", "modelId": "deep"}]


class Planner(Agent):
    """Shows a plan, and waits until it may go on."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        if turn.text == "text":
            await turn.plan_markdown("# Notes\n\n- look around\n- act")
        elif turn.text == "file":
            await turn.plan_file("file:///srv/plan.md")
        else:
            plan = await turn.plan([PlanEntry(f"Step {n}") for n in range(8)])
            await plan.update(0, status="completed")
            await plan.update(1, status="in_progress")
        await self.may_go_on.wait()
        await turn.say("Done.")


async def test_plan_is_shown_while_the_agent_works(tmp_path: Path) -> None:
    agent = Planner()
    async with open_chat(LocalAgent(agent), folder=tmp_path) as user:
        await user.send("go")
        await user.sees("Step 1", "working")
        assert "Step 7" not in user.screen  # a part of it
        await user.press("f5")
        await user.until(lambda: isinstance(user.app.screen, ViewerScreen))
        await user.sees("Step 0", "Step 7")
        await user.press("escape")
        agent.may_go_on.set()
        await user.until(lambda: "Done." in user.screen and "Step 1" not in user.screen)
        await user.press("f5")
        await user.sees("Step 7")


@pytest.mark.parametrize(
    ("version", "prompt", "shown"), [(1, "text", "look around"), (2, "file", "plan.md")]
)
async def test_plan_in_another_form_is_shown(
    tmp_path: Path, version: int, prompt: str, shown: str
) -> None:
    """The chat advertises them to agents of version 1; those of version 2 send them at will."""
    agent = Planner()
    async with open_chat(LocalAgent(agent, version=version), folder=tmp_path) as user:
        await user.send(prompt)
        await user.sees(shown, "working")
        await user.press("f5")
        await user.until(lambda: isinstance(user.app.screen, ViewerScreen))
        await user.sees(shown)
        await user.press("escape")
        agent.may_go_on.set()
        await user.sees("Done.")


async def test_plan_of_version_1_is_replaced_and_removed(tmp_path: Path) -> None:
    source = HandAgent(1, {"session/new": {"sessionId": "s1"}})
    async with open_chat(source, folder=tmp_path) as user:

        def entry(text: str) -> dict[str, str]:
            return {"content": text, "priority": "high", "status": "pending"}

        source.update("s1", sessionUpdate="plan", entries=[entry("First idea")])
        await user.until(lambda: user.session.transcript.plan is not None)
        source.update("s1", sessionUpdate="plan", entries=[entry("Better idea")])
        await user.press("f5")
        await user.until(lambda: isinstance(user.app.screen, ViewerScreen))
        await user.press("escape", "f5")
        await user.sees("Better idea")
        assert "First idea" not in user.screen


@VERSIONS
async def test_resume_begins_with_the_list_of_sessions(tmp_path: Path, version: int) -> None:
    agent = Reporter()
    agent.store = MemoryStore()
    async with open_chat(LocalAgent(agent, version=version), folder=tmp_path) as user:
        await user.send("remember me")
        await user.sees("Servers: .")
    source = LocalAgent(agent, version=version)
    async with open_chat(source, folder=tmp_path, lists_sessions=True) as user:
        await user.sees("Sessions of this folder", "remember me")
        assert "session-" not in user.screen  # not also the new one
        await user.type("remember")
        await user.press("enter")
        await user.sees("▌ remember me", "Servers: .")
        await user.until(lambda: len(user.chat.sessions) == 1)  # not also an empty one


async def test_conversation_that_the_agent_does_not_send_is_mentioned(tmp_path: Path) -> None:
    source = HandAgent(1, {"session/new": {"sessionId": "s1"}, "session/load": {}})
    source.results["initialize"]["agentCapabilities"] = {"loadSession": True}
    async with open_chat(source, folder=tmp_path) as user:
        opened = user.chat.open_session("hand", session_id="s0")
        await user.until(lambda: opened.state == "idle")
        (remark,) = opened.timeline.entries
        assert isinstance(remark.content, Remark)
        assert remark.content.text == "Open; the agent has sent nothing of the conversation"


async def test_resume_with_an_agent_that_cannot_list_says_so(tmp_path: Path) -> None:
    source = HandAgent(1, {"session/new": {"sessionId": "s1"}})
    async with open_chat(source, folder=tmp_path, lists_sessions=True) as user:
        await user.sees("The agent cannot list its sessions.")
