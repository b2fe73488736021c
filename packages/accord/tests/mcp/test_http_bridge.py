"""The loopback HTTP bridge: clients of both eras, who may call it, its bounds and its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context

from accord.mcp.bridges import HttpBridge
from accord.mcp.consumer import CLIENT_CAPABILITIES, MCP_VERSION, PROTOCOL_VERSION
from accord.mcp.servers import servers_from
from accord.types.mcp import McpServerHttp
from client.wire_agents import BOTH, agent_by_hand
from mcp_tools import capabilities, open_session, text_of
from requirement import requirement

META = {PROTOCOL_VERSION: MCP_VERSION, CLIENT_CAPABILITIES: {}}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": MCP_VERSION,
    "Mcp-Method": "tools/list",
}


def lookup(term: str) -> str:
    """What the team means by a term."""
    return f"{term}: an order of messages"


@asynccontextmanager
async def bridge(*tools: Any) -> AsyncGenerator[tuple[McpServerHttp, HttpBridge], None]:
    served = HttpBridge(servers_from(tools or [lookup]))
    try:
        (declared,) = await served.start()
        yield declared, served
    finally:
        await served.aclose()


@asynccontextmanager
async def client(declared: McpServerHttp, mode: Any) -> AsyncGenerator[Client, None]:
    async with httpx2.AsyncClient(verify=False, headers=dict(declared.headers)) as http:
        transport = streamable_http_client(declared.url, http_client=http)
        async with Client(transport, mode=mode) as connected:
            yield connected


@requirement("R-MOA-17")
@pytest.mark.parametrize("mode", ["legacy", MCP_VERSION, "auto"])
async def test_clients_with_and_without_a_handshake_call_a_function(mode: str) -> None:
    async with bridge() as (declared, _), client(declared, mode) as connected:
        assert [tool.name for tool in (await connected.list_tools()).tools] == ["lookup"]
        result = await connected.call_tool("lookup", {"term": "lane"})
        assert text_of(result) == "lane: an order of messages"


@pytest.mark.parametrize("mode", ["legacy", MCP_VERSION])
async def test_progress_arrives_before_the_result(mode: str) -> None:
    async def work(context: Context[Any, Any]) -> str:
        await context.report_progress(1, 2, "half")
        return "done"

    seen: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with bridge(work) as (declared, _), client(declared, mode) as connected:
        result = await connected.call_tool("work", {}, progress_callback=note)
        assert text_of(result) == "done"
    assert seen == [(1, 2, "half")]


def body(method: str = "tools/list", **changes: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META}} | changes


async def post(
    declared: McpServerHttp, content: Any, *, method: str = "POST", **changes: Any
) -> httpx2.Response:
    given = HEADERS | dict(declared.headers) | {"Content-Type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in changes.items() if value is not None}
    dropped = [name.replace("_", "-") for name, value in changes.items() if value is None]
    headers = {name: value for name, value in given.items() if name not in dropped}
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    async with httpx2.AsyncClient(verify=False) as http:
        return await http.request(method, declared.url, content=text, headers=headers)


@requirement("R-MOA-17")
async def test_it_listens_on_loopback_with_a_token_of_256_bits() -> None:
    async with bridge() as (declared, served):
        assert urlsplit(declared.url).hostname == "127.0.0.1"
        token = declared.headers["Authorization"].removeprefix("Bearer ")
        assert len(token) == 43
        assert token not in declared.url
        assert (await post(declared, body())).status_code == 200
        async with bridge() as (other, _):
            assert other.headers != declared.headers
        assert served


@requirement("R-MOA-17")
@pytest.mark.parametrize(
    ("status", "changes"),
    [
        (401, {"Authorization": None}),
        (401, {"Authorization": "Bearer x"}),
        (403, {"Host": "example.com"}),
        (403, {"Host": "127.0.0.1"}),
        (403, {"Origin": "https://example.com"}),
        (406, {"Accept": "text/html"}),
        (415, {"Content_Type": "text/plain"}),
        (400, {"Mcp_Method": "tools/call"}),
        (400, {"MCP_Protocol_Version": "2099-01-01"}),
    ],
)
async def test_requests_that_must_not_reach_the_server(
    status: int, changes: dict[str, Any]
) -> None:
    async with bridge() as (declared, _):
        assert (await post(declared, body(), **changes)).status_code == status


@pytest.mark.parametrize(
    ("status", "content", "method", "code"),
    [
        (400, b"{", "tools/list", -32700),
        (400, [], "tools/list", -32600),
        (400, body(params={}), "tools/list", -32602),
        (404, body("unknown/x"), "unknown/x", -32601),
        (404, body("initialize"), "initialize", -32601),
    ],
)
async def test_statuses_of_errors(status: int, content: Any, method: str, code: int) -> None:
    async with bridge() as (declared, _):
        answer = await post(declared, content, Mcp_Method=method)
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == code


@requirement("R-MOA-17")
async def test_unknown_paths_methods_and_large_bodies_are_refused() -> None:
    async with bridge() as (declared, _):
        assert (await post(declared, body(), method="PUT")).status_code == 405
        assert (await post(declared, b" " * (1024 * 1024 + 1))).status_code == 413
        elsewhere = McpServerHttp("x", declared.url + "0", declared.headers)
        assert (await post(elsewhere, body())).status_code == 404


async def test_a_header_that_is_sent_twice_is_refused() -> None:
    async with bridge() as (declared, _), httpx2.AsyncClient(verify=False) as http:
        headers = [
            *(HEADERS | dict(declared.headers)).items(),
            ("Content-Type", "application/json"),
        ]
        headers += [("Authorization", "Bearer x")]
        answer = await http.post(declared.url, json=body(), headers=headers)
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == -32020


def call(name: str) -> Any:
    return body("tools/call", params={"name": name, "arguments": {}, "_meta": META})


@requirement("R-MOA-14")
async def test_more_than_64_active_requests_get_429() -> None:
    active = 0
    full, go = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        nonlocal active
        active += 1
        if active == 64:
            full.set()
        await go.wait()
        return "done"

    async with bridge(wait) as (declared, _), asyncio.TaskGroup() as group:
        named = {"Mcp_Method": "tools/call", "Mcp_Name": "wait"}
        calls = [group.create_task(post(declared, call("wait"), **named)) for _ in range(64)]
        await full.wait()
        refused = await post(declared, call("wait"), **named)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, -33000)
        go.set()
        assert {(await each).status_code for each in calls} == {200}


@requirement("R-MOA-11")
async def test_dropping_a_response_cancels_its_request_only() -> None:
    started, cancelled = asyncio.Queue[str](), asyncio.Queue[str]()

    async def wait(name: str) -> str:
        started.put_nowait(name)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.put_nowait(name)
            raise
        raise AssertionError

    async with bridge(wait) as (declared, served):
        named = {"Mcp_Method": "tools/call", "Mcp_Name": "wait"}

        def request(name: str) -> asyncio.Task[httpx2.Response]:
            content = call("wait")
            content["params"]["arguments"]["name"] = name
            return asyncio.create_task(post(declared, content, **named))

        first, second = request("first"), request("second")
        assert {await started.get(), await started.get()} == {"first", "second"}
        first.cancel()
        assert await cancelled.get() == "first"
        await served.aclose()  # ends the other one
        assert await cancelled.get() == "second"
        with pytest.raises(httpx2.HTTPError):
            await second


@requirement("R-MOA-17")
@BOTH
async def test_the_bridge_ends_with_its_session(version: int) -> None:
    initialize = capabilities(version, "http", "stdio")
    async with agent_by_hand(version, initialize=initialize) as (agent, raw):
        opened = await open_session(agent, raw, lookup)
        (server,) = opened.servers
        headers = {each["name"]: each["value"] for each in server["headers"]}
        declared = McpServerHttp(server["name"], server["url"], headers)
        assert (await post(declared, body())).status_code == 200
        closing = asyncio.create_task(agent.close_session("s1"))
        request = await raw.get()
        raw.answer(request["id"], {})
        await closing
        with pytest.raises(httpx2.ConnectError):
            await post(declared, body())


async def test_the_bridge_ends_with_the_connection() -> None:
    async with agent_by_hand(1, initialize=capabilities(1, "http")) as (agent, raw):
        opened = await open_session(agent, raw, lookup)
        url = opened.servers[0]["url"]
    with pytest.raises(httpx2.ConnectError):
        await post(McpServerHttp("x", url), body())
