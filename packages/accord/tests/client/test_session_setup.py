"""Before a prompt: the client's implementation and capabilities, and the setup of a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord import (
    Agent,
    AuthRequired,
    ImageContent,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    NotOffered,
    Turn,
    connect,
)
from accord.errors import LocalProtocolError
from client.wire_agents import BOTH, agent_by_hand, opened, update
from requirement import requirement

ROOTS = {
    1: {"agentCapabilities": {"sessionCapabilities": {"additionalDirectories": {}}}},
    2: {"capabilities": {"session": {"additionalDirectories": {}}}},
}


@requirement("R-INIT-03", "R-INIT-20", "R-AUTH-14")
@BOTH
async def test_client_sends_its_implementation_and_capabilities(version: int) -> None:
    async with agent_by_hand(version) as (_agent, raw):
        said = raw.initialize["params"]
    assert said["clientInfo" if version == 1 else "info"]["name"] == "accord"
    offers = said["clientCapabilities" if version == 1 else "capabilities"]
    assert isinstance(offers, dict)
    assert "auth" not in offers  # the client runs no terminal logins


@requirement("R-DIR-01")
@BOTH
async def test_additional_directories_need_the_capability_of_the_agent(version: int) -> None:
    async with agent_by_hand(version) as (agent, raw):
        with pytest.raises(NotOffered, match="additional"):
            await agent.new_session("/work", additional_directories=["/other"])
        await opened(agent, raw)  # nothing was sent


class Prompted(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say("hello")


@pytest.mark.parametrize("wrong", [Prompted, Prompted(), 3, None, {"command": "x"}], ids=repr)
async def test_invalid_address_of_an_agent_is_named(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"connect\(command=…\): expected the command"):
        async with connect(wrong):
            pass


@requirement("R-MCP-03")
async def test_server_that_version_2_does_not_define_is_rejected_before_sending() -> None:
    async with agent_by_hand(2) as (agent, raw):
        with pytest.raises(LocalProtocolError, match=r"'old' uses SSE.*version 1"):
            await agent.new_session("/work", mcp_servers=[McpServerSse("old", "https://a.example")])
        await opened(agent, raw)  # nothing was sent


@requirement("R-DIR-11")
@BOTH
async def test_directories_are_sent_once(version: int) -> None:
    async with agent_by_hand(version, initialize=ROOTS[version]) as (agent, raw):
        opening = asyncio.create_task(
            agent.new_session(
                "/work", additional_directories=["/other", "/work", "/other", "/more"]
            )
        )
        request = await raw.get()
        raw.answer(request["id"], {"sessionId": "s1"})
        session = await opening
    assert request["params"]["additionalDirectories"] == ["/other", "/more"]
    assert session.directories == ("/work", "/other", "/more")


@requirement("R-MCP-02", "R-MCP-03")
@pytest.mark.parametrize(
    ("version", "server"),
    [
        (1, McpServerHttp("a", "https://a.example")),
        (2, McpServerHttp("a", "https://a.example")),
        (2, McpServerStdio("a", "/bin/a")),
    ],
)
async def test_mcp_servers_need_the_capability_of_the_agent(version: int, server: Any) -> None:
    async with agent_by_hand(version) as (agent, raw):
        with pytest.raises(NotOffered, match="mcp"):
            await agent.new_session("/", mcp_servers=[server])
        await opened(agent, raw)


@requirement("R-PROMPT-02", "R-CONT-03")
@BOTH
async def test_images_need_the_capability_of_the_agent(version: int) -> None:
    async with agent_by_hand(version) as (agent, raw):
        session = await opened(agent, raw)
        with pytest.raises(NotOffered, match="image"):
            async with session.prompt("Look:", ImageContent(b"x", "image/png")) as turn:
                await turn.wait()
        assert raw.inbox.empty()


@requirement("R-AUTH-12")
@BOTH
async def test_session_that_required_a_login_works_after_it(version: int) -> None:
    logins = [{"id": "a", "methodId": "a", "name": "A", "type": "agent"}]
    offers = ROOTS[version] | {"authMethods": logins}
    async with agent_by_hand(version, initialize=offers) as (agent, raw):
        refused = asyncio.create_task(agent.new_session("/"))
        error = {"code": -32000, "message": "Log in"}
        raw.send({"jsonrpc": "2.0", "id": (await raw.get())["id"], "error": error})
        with pytest.raises(AuthRequired):
            await refused
        login = asyncio.create_task(agent.authenticate(agent.auth_methods[0].id))
        raw.answer((await raw.get())["id"], {})
        await login
        assert (await opened(agent, raw)).id == "s1"


@requirement("R-SESS-28")
async def test_v2_state_received_before_the_response_is_the_state() -> None:
    async with agent_by_hand(2) as (agent, raw):
        opening = asyncio.create_task(agent.new_session("/"))
        request = await raw.get()
        raw.tell(*update("s1", sessionUpdate="state_update", state="running"))
        raw.answer(request["id"], {"sessionId": "s1"})
        session = await opening
        assert session.transcript.state is not None
        assert session.transcript.state.state == "running"


@requirement("R-LIST-09")
@BOTH
async def test_listing_has_the_reported_directories_only(version: int) -> None:
    offers: dict[str, Any] = {"capabilities": {"session": {}}}
    if version == 1:
        offers = {"agentCapabilities": {"sessionCapabilities": {"list": {}}}}
    found: list[tuple[str, ...]] = []
    async with agent_by_hand(version, initialize=offers) as (agent, raw):
        for roots in ({"additionalDirectories": ["/other"]}, {}):
            listing = asyncio.ensure_future(anext(agent.list_sessions()))
            info = {"sessionId": "s1", "cwd": "/", **roots}
            raw.answer((await raw.get())["id"], {"sessions": [info]})
            found.append((await listing).additional_directories)
    assert found == [("/other",), ()]
