"""Unusual input of clients: it is accepted, rejected or ignored, in both versions."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from accord import Agent, InvalidParams, ResourceLink, Turn, v1, v2
from accord.agent.store import MemoryStore
from accord.errors import RequestError
from agent.harness import BOTH, V1, V2, AgentHarness, ClientV1, ClientV2, connect_client
from requirement import requirement


class Echo(Agent):
    """Repeats the prompt."""

    mcp_transports = frozenset({"stdio"})

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.turns: list[Turn] = []

    async def prompt(self, turn: Turn) -> None:
        self.turns.append(turn)
        await turn.say(turn.text)


@BOTH
@requirement("R-INIT-24", "R-CONT-04")
async def test_text_and_links_are_always_accepted(version: int) -> None:
    agent = Echo()
    async with connect_client(agent, version) as client:
        link = client.types.ResourceLink(uri="file:///a.py", name="a.py")
        assert await client.prompt("Look at", link) == "end_turn"
        assert agent.turns[0].links == (ResourceLink("file:///a.py", "a.py"),)


async def reopened(client: AgentHarness, session_id: str) -> None:
    """Load a session by id and directory only."""
    if client.version == V1:
        load = v1.LoadSessionRequest(session_id=session_id, cwd="/project", mcp_servers=[])
        await client.remote.load_session(load)
    else:
        await client.remote.resume_session(
            v2.ResumeSessionRequest(session_id=session_id, cwd="/project")
        )


@BOTH
@requirement("R-SESS-36", "R-DIR-03")
async def test_earlier_servers_and_directories_are_not_restored(version: int) -> None:
    agent = Echo()
    async with connect_client(agent, version, opened=False) as client:
        server = client.types.McpServerStdio(name="a", command="/bin/a", args=[], env=[])
        await client.open(mcp_servers=[server], additional_directories=["/other"])
        assert agent.sessions[client.session_id].directories == ("/project", "/other")
        session_id = client.session_id
    async with connect_client(agent, version, opened=False) as client:
        await reopened(client, session_id)
        session = agent.sessions[session_id]
        assert session.mcp_servers == ()
        assert session.directories == ("/project",)


@BOTH
@requirement("R-STATUS-02")
async def test_status_of_a_stored_session_does_not_open_it(version: int) -> None:
    class Open(Echo):
        unstable = True

    agent = Open()
    async with connect_client(agent, version) as client:
        session_id = client.session_id
    async with connect_client(agent, version, opened=False) as client:
        request = client.types.SessionStatusRequest(session_id=session_id)
        assert (await client.remote.session_status(request)).status == "saved"
        assert not agent.sessions
        assert not client.updates


@requirement("R-ARCH-02")
async def test_v1_agent_that_archives_also_lists() -> None:
    class Archives(Echo):
        unstable = True

    async with connect_client(Archives(), V1) as client:
        sessions = client.remote.initialized.agent_capabilities.session_capabilities
        assert sessions.archive is not None
        assert sessions.list is not None


@BOTH
@requirement("R-GEN-01", "R-GEN-15", "R-DIR-07")
@pytest.mark.parametrize("path", ["here", "file:///project", "", "~"])
async def test_path_that_is_not_absolute_opens_nothing(version: int, path: str) -> None:
    agent = Echo()
    async with connect_client(agent, version, opened=False) as client:
        for fields in ({"cwd": path}, {"additional_directories": ["/other", path]}):
            with pytest.raises(InvalidParams):
                await client.open(**fields)
        assert not agent.sessions


@BOTH
@requirement("R-SYSP-03")
async def test_system_prompt_that_cannot_be_applied_opens_nothing(version: int) -> None:
    agent = Echo()
    async with connect_client(agent, version, opened=False) as client:
        text = {"type": "text", "text": "Be brief."}
        params = {
            "cwd": "/project",
            "mcpServers": [],
            "systemPrompt": {"mode": "append", "content": [text]},
        }
        with pytest.raises(InvalidParams):
            await client.remote.connection.call("session/new", params, bytes)
        assert not agent.sessions


# Cancel and close while the user is asked.


def asked_for_ever(version: int, asked: asyncio.Event, withdrawn: asyncio.Event) -> Any:
    """Return a client whose user never responds, to neither permission request nor form."""

    async def wait() -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()

    class One(ClientV1):
        async def request_permission(self, params: Any, context: Any) -> Any:
            return await wait()

        async def create_elicitation(self, params: Any, context: Any) -> Any:
            return await wait()

    class Two(ClientV2):
        async def request_permission(self, params: Any, context: Any) -> Any:
            return await wait()

        async def create_elicitation(self, params: Any, context: Any) -> Any:
            return await wait()

    return One if version == V1 else Two


class Which(Struct):
    """A form."""

    name: str


class Asks(Agent):
    """Asks for permission, or shows a form."""

    async def prompt(self, turn: Turn) -> None:
        if turn.text == "form":
            await turn.elicit_form(Which, "Which?")
        async with turn.tool("Edit") as call:
            await call.permission()


@BOTH
@pytest.mark.parametrize("question", ["permission", "form"])
@pytest.mark.parametrize("how", ["cancel", "close"])
@requirement("R-SESS-34", "R-CANCEL-16")
async def test_open_questions_are_cancelled_with_the_work_that_asked(
    version: int, question: str, how: str
) -> None:
    asked, withdrawn = asyncio.Event(), asyncio.Event()
    frames: list[Any] = []

    def note(way: str, frame: Any) -> None:
        if way == "sent":
            frames.append(json.loads(bytes(frame)))

    make = asked_for_ever(version, asked, withdrawn)
    async with connect_client(Asks(), version, client=make, observers=[note]) as client:
        sent = client.send(question)
        await asked.wait()
        if how == "cancel":
            await client.cancel()
        else:
            close = client.types.CloseSessionRequest(session_id=client.session_id)
            await client.remote.close_session(close)
        assert await client.stopped(sent) == "cancelled"
        await withdrawn.wait()
    questions = [f["id"] for f in frames if "method" in f and "id" in f]
    cancels = [f["params"]["requestId"] for f in frames if f.get("method") == "$/cancel_request"]
    assert cancels == questions


# Any capabilities of a client.

OFFER = st.fixed_dictionaries(
    {},
    optional={
        "fs": st.fixed_dictionaries(
            {}, optional={"readTextFile": st.booleans(), "writeTextFile": st.booleans()}
        ),
        "terminal": st.booleans(),
        "elicitation": st.sampled_from([{}, {"form": {}}, {"url": {}}, None]),
        "session": st.sampled_from([{}, {"notices": {}}, {"compaction": {}}, 5]),
        "auth": st.sampled_from([{}, {"terminal": {}}, {"terminal": True}]),
        "plan": st.sampled_from([{}, None]),
        "subagents": st.sampled_from([{}, None]),
        "_own": st.just({"x": 1}),
    },
)


@BOTH
@requirement("R-INIT-17")
def test_agent_works_with_any_client_capabilities(version: int) -> None:
    from accord import serve
    from accord.transports.memory import pair
    from raw_peer import RawPeer

    async def turn(offers: Any) -> None:
        here, there = pair()
        raw = RawPeer(here)
        await here.start(raw)
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(Echo(), there))
            name = "clientCapabilities" if version == V1 else "capabilities"
            hello = {"protocolVersion": version, name: offers}
            if version == V2:
                hello["info"] = {"name": "c", "version": "1"}
            await raw.result_of(1, "initialize", hello)
            setup = {"cwd": "/project", "mcpServers": []}
            session_id = (await raw.result_of(2, "session/new", setup))["sessionId"]
            prompt = [{"type": "text", "text": "hi"}]
            raw.ask(3, "session/prompt", {"sessionId": session_id, "prompt": prompt})
            while "hi" not in json.dumps(message := await raw.get()):
                assert "error" not in message
            await raw.hang_up()

    @settings(max_examples=30)
    @given(OFFER)
    def check(offers: Any) -> None:
        asyncio.run(turn(offers))

    check()


# The log.


@BOTH
@requirement("R-GEN-16")
@pytest.mark.parametrize("level", [logging.WARNING, logging.DEBUG])
async def test_log_of_a_malformed_message_omits_its_values(
    version: int, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level)
    async with connect_client(Echo(), version, opened=False) as client:
        variable = {"name": "KEY", "value": "hunter2"}
        server = {"type": "stdio", "name": "a", "command": 5, "args": [], "env": [variable]}
        params = {"cwd": "/project", "mcpServers": [server]}
        with pytest.raises(RequestError):
            await client.remote.connection.call("session/new", params, bytes)
        await client.remote.connection.notify(
            "session/cancel", {"sessionId": ["hunter2"], "_meta": {"k": "hunter2"}}
        )
    assert "hunter2" not in caplog.text


@requirement("R-TOOL-03")
async def test_v1_tool_call_update_has_only_the_changes() -> None:
    class Works(Agent):
        async def prompt(self, turn: Turn) -> None:
            async with turn.tool("Look", kind="read", raw_input={"a": 1}) as call:
                await call.start()
                await call.update(title="Looked")

    async with connect_client(Works(), V1) as client:
        await client.prompt("hi")
        changes = [client.json(update) for update in client.of("ToolCallUpdate")]
    for change in changes:
        del change["sessionUpdate"], change["toolCallId"]
    assert {"title": "Looked"} in changes
    assert changes[-1] == {"status": "completed"}
