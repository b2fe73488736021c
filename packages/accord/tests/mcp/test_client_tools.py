"""`tools=[…]` of a client: over ACP, over HTTP and over stdio, for as long as the session."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the library `mcp` is not installed")

from accord import LocalProtocolError
from accord.installed import install_command
from client.test_reconnect import LOAD, connected
from client.wire_agents import BOTH, agent_by_hand
from mcp_tools import META, Opened, capabilities, open_session
from requirement import requirement


def lookup(term: str) -> str:
    """What the team means by a term."""
    return f"{term}: an order of messages"


async def wait() -> str:
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def session(version: int, *tools: Any) -> AsyncGenerator[Opened, None]:
    initialize = capabilities(version, "acp", "http", "stdio")
    async with agent_by_hand(version, initialize=initialize) as (agent, raw):
        yield await open_session(agent, raw, *tools)


@requirement("R-MOA-01", "R-MOA-09")
@BOTH
async def test_tools_are_served_over_acp_if_the_agent_supports_it(version: int) -> None:
    async with session(version, lookup) as opened:
        (server,) = opened.servers
        assert (server["type"], server["name"]) == ("acp", "tools")
        params = {"name": "lookup", "arguments": {"term": "lane"}}
        answer = await opened.answer_to("tools/call", params)
        content = answer["result"]["result"]["content"]
        assert content == [{"type": "text", "text": "lane: an order of messages"}]


@pytest.mark.parametrize("tools", [lookup, "lookup", {"lookup": lookup}, 7])
async def test_tools_that_are_no_list_are_an_error_that_says_so(tools: Any) -> None:
    async with agent_by_hand(1, initialize=capabilities(1, "acp")) as (agent, _):
        with pytest.raises(TypeError, match=r"tools=…: expected a list of functions, .* got .+"):
            await agent.new_session("/", tools=tools)


@requirement("R-MOA-08")
@BOTH
async def test_tools_can_be_called_before_the_session_is_open(version: int) -> None:
    initialize = capabilities(version, "acp")
    async with agent_by_hand(version, initialize=initialize) as (agent, raw):
        opening = asyncio.create_task(agent.new_session("/", tools=[lookup]))
        request = await raw.get()
        opened = Opened(agent, raw, request["params"]["mcpServers"])
        answer = await opened.answer_to("tools/list")
        assert answer["result"]["result"]["tools"][0]["name"] == "lookup"
        raw.answer(request["id"], {"sessionId": "s1"})
        await opening


@requirement("R-MOA-05", "R-MOA-12")
@BOTH
async def test_params_that_are_not_an_object_are_an_error_of_the_binding(version: int) -> None:
    async with session(version, lookup) as opened:
        opened.ask_with([])
        assert (await opened.raw.get())["error"]["code"] == -32602
        opened.ask_with(None)  # like none: the outcome lacks what must be in them
        assert (await opened.raw.get())["result"]["error"]["code"] == -32602


@requirement("R-MOA-11")
@BOTH
async def test_a_cancelled_request_is_answered_and_others_continue(version: int) -> None:
    async with session(version, wait) as opened:
        first = opened.ask("tools/call", {"name": "wait"})
        second = opened.ask("tools/call", {"name": "wait"})
        opened.raw.tell("$/cancel_request", {"requestId": first})
        answer = await opened.raw.get()
        assert (answer["id"], answer["error"]["code"]) == (first, -32800)
        opened.raw.tell("$/cancel_request", {"requestId": second})
        assert (await opened.raw.get())["id"] == second


@requirement("R-MOA-07", "R-MOA-11")
@BOTH
async def test_closing_the_session_ends_its_tools(version: int) -> None:
    initialize = capabilities(version, "acp")
    async with agent_by_hand(version, initialize=initialize) as (agent, raw):
        opened = await open_session(agent, raw, wait)
        active = opened.ask("tools/call", {"name": "wait"})
        closing = asyncio.create_task(agent.close_session("s1"))
        request = await raw.get()
        raw.answer(request["id"], {})
        cancelled = await raw.get()
        assert (cancelled["id"], cancelled["error"]["code"]) == (active, -32800)
        await closing
        unavailable = await opened.answer_to("tools/list")
        assert unavailable["error"]["code"] == -33001
        assert unavailable["error"]["data"] == {"serverId": opened.servers[0]["serverId"]}


@requirement("R-MOA-07")
@BOTH
async def test_a_session_that_is_not_opened_has_no_tools(version: int) -> None:
    initialize = capabilities(version, "acp")
    async with agent_by_hand(version, initialize=initialize) as (agent, raw):
        opening = asyncio.create_task(agent.new_session("/", tools=[lookup]))
        request = await raw.get()
        raw.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": 1, "message": "no"}})
        with pytest.raises(Exception, match="no"):
            await opening
        opened = Opened(agent, raw, request["params"]["mcpServers"])
        assert (await opened.answer_to("tools/list"))["error"]["code"] == -33001


@requirement("R-MOA-16")
@BOTH
@pytest.mark.parametrize("method", ["mcp/connect", "_mcp/connect"])
async def test_the_old_dialect_is_refused_and_logged_once(
    version: int, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    initialize = capabilities(version, "acp", "http", "stdio")
    async with agent_by_hand(version, initialize=initialize) as (agent, raw):
        await open_session(agent, raw, lookup)
        with caplog.at_level(logging.WARNING, "accord.client"):
            for number in (1, 2):
                raw.ask(number, method, {"acpUrl": "acp:1"})
                assert (await raw.get())["error"]["code"] == -32601
        assert caplog.text.count("older draft") == 1
        opened = await open_session(agent, raw, lookup)
        assert opened.servers[0]["type"] == "http"


@requirement("R-MOA-01")
async def test_a_remote_agent_without_mcp_over_acp_cannot_use_tools() -> None:
    async with agent_by_hand(1, initialize=capabilities(1, "http")) as (agent, _):
        agent._handlers.tools.agent_url = "wss://example.com/acp"
        with pytest.raises(LocalProtocolError, match=r"example\.com"):
            await agent.new_session("/", tools=[lookup])


async def test_an_agent_without_mcp_cannot_use_tools() -> None:
    async with agent_by_hand(2) as (agent, _):
        with pytest.raises(LocalProtocolError, match="none of the transports"):
            await agent.new_session("/", tools=[lookup])


@requirement("R-MOA-02", "R-MOA-08")
@BOTH
async def test_tools_are_served_again_after_a_reconnect(version: int) -> None:
    mcp = {1: {"mcpCapabilities": {"acp": True}}, 2: {"mcp": {"acp": {}}}}[version]
    more = {"loadSession": True} if version == 1 else {}
    async with connected(version, capabilities=mcp | more) as (client, agents, first):
        opening = asyncio.create_task(client.new_session("/", tools=[lookup]))
        request = await first.get()
        declared = request["params"]["mcpServers"]
        first.answer(request["id"], {"sessionId": "s1"})
        await opening
        await first.transport.aclose()
        again = await agents.next()
        request = await again.get()
        assert request["method"] == LOAD[version]
        assert request["params"]["mcpServers"] == declared
        message = {"serverId": declared[0]["serverId"], "requestId": "r", "method": "tools/list"}
        again.ask(50, "mcp/message", message | {"params": {"_meta": META}})
        answer = await again.get()
        assert answer["result"]["result"]["tools"][0]["name"] == "lookup"
        again.answer(request["id"], {})
        await agents.until("reconnecting", "connected")


@requirement("R-MOA-07")
@BOTH
async def test_loading_a_session_again_replaces_its_tools(version: int) -> None:
    initialize = capabilities(version, "acp")
    if version == 1:
        initialize["agentCapabilities"]["loadSession"] = True
    async with agent_by_hand(version, initialize=initialize) as (agent, raw):
        before = await open_session(agent, raw, lookup)
        loading = asyncio.create_task(agent.load_session("s1", "/", tools=[wait]))
        request = await raw.get()
        raw.answer(request["id"], {})
        await loading
        assert (await before.answer_to("tools/list"))["error"]["code"] == -33001
        after = Opened(agent, raw, request["params"]["mcpServers"])
        listed = await after.answer_to("tools/list")
        assert listed["result"]["result"]["tools"][0]["name"] == "wait"


@BOTH
async def test_a_fork_has_tools_of_its_own(version: int) -> None:
    initialize = capabilities(version, "acp")
    fork = {"fork": {}}
    if version == 1:
        initialize["agentCapabilities"]["sessionCapabilities"] = fork
    else:
        initialize["capabilities"]["session"] |= fork
    async with agent_by_hand(version, initialize=initialize) as (agent, raw):
        await open_session(agent, raw, lookup)
        forking = asyncio.create_task(agent.fork_session("s1", "/", tools=[wait]))
        request = await raw.get()
        raw.answer(request["id"], {"sessionId": "s2"})
        await forking
        forked = Opened(agent, raw, request["params"]["mcpServers"])
        listed = await forked.answer_to("tools/list")
        assert listed["result"]["result"]["tools"][0]["name"] == "wait"


MISSING = """
import asyncio, sys
sys.modules["mcp"] = None

from accord.client.handlers import ClientTools

async def main():
    try:
        await ClientTools()._serve([print], {"acp"}, [])
    except ModuleNotFoundError as error:
        print(error)

asyncio.run(main())
"""


async def test_without_the_library_the_error_names_the_extra() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MISSING, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert install_command("mcp").encode() in output
