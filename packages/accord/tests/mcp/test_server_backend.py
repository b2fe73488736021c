"""Servers of the library `mcp` behind a provider: tools, progress, logs, errors, lifespan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context

import accord
from accord.errors import McpBackendFailed, RequestCancelled
from accord.mcp.consumer import CLIENT_CAPABILITIES, MCP_VERSION, PROTOCOL_VERSION
from accord.mcp.provider import McpProvider, Registration
from accord.mcp.servers import ServerBackend, servers_from
from accord.wire.shared import (
    MessageMcpError,
    MessageMcpNotification,
    MessageMcpRequest,
    MessageMcpResult,
)
from requirement import requirement

META = {PROTOCOL_VERSION: MCP_VERSION, CLIENT_CAPABILITIES: {}}


class Provided:
    """One registered server, and the notifications that it sent."""

    def __init__(self, tool: object) -> None:
        (named,) = servers_from([tool])
        self.name = named.name
        self.provider = McpProvider()
        self.registration: Registration = self.provider.register(
            named.name, ServerBackend(named.server)
        )
        self.sent: list[tuple[str, Any]] = []
        self.arrived = asyncio.Event()

    async def request(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> Any:
        message = MessageMcpRequest(
            server_id=self.registration.declaration.server_id,
            request_id="r",
            method=method,
            params={**(params or {}), "_meta": {**META, **meta}},
        )
        return await self.provider.request(message, self._notify)

    async def result(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> Any:
        answer = await self.request(method, params, **meta)
        assert isinstance(answer, MessageMcpResult), answer
        return answer.result

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **meta: Any) -> Any:
        params = {"name": name, "arguments": arguments or {}}
        return await self.result("tools/call", params, **meta)

    async def _notify(self, notification: MessageMcpNotification) -> None:
        self.sent.append((notification.method, notification.params))
        self.arrived.set()


@asynccontextmanager
async def provided(tool: object) -> AsyncGenerator[Provided, None]:
    server = Provided(tool)
    try:
        yield server
    finally:
        await server.provider.aclose()


def lookup(term: str, limit: int = 3) -> list[str]:
    """What the team means by a term."""
    return [f"{term}: a lane"] * limit


async def test_a_typed_function_is_a_tool_described_by_its_signature_and_docstring() -> None:
    async with provided(lookup) as server:
        assert server.name == "tools"
        (tool,) = (await server.result("tools/list"))["tools"]
        assert tool["name"] == "lookup"
        assert tool["description"] == "What the team means by a term."
        assert tool["inputSchema"]["required"] == ["term"]
        assert tool["inputSchema"]["properties"]["limit"] == {
            "default": 3,
            "title": "Limit",
            "type": "integer",
        }
        result = await server.call("lookup", {"term": "lane", "limit": 1})
        assert result["content"] == [{"type": "text", "text": "lane: a lane"}]


@requirement("R-MOA-06")
async def test_wrong_arguments_are_a_result_that_the_model_can_read() -> None:
    async with provided(lookup) as server:
        result = await server.call("lookup", {"limit": "x"})
        assert result["isError"]
        assert "term" in result["content"][0]["text"]


@requirement("R-MOA-09")
@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_progress_and_logs_are_notifications_of_the_request() -> None:
    async def work(context: Context[Any, Any]) -> str:
        await context.report_progress(1, 2, "half")
        await context.info("a log entry")
        return "done"

    async with provided(work) as server:
        level: dict[str, Any] = {"io.modelcontextprotocol/logLevel": "info"}
        result = await server.call("work", progressToken="p", **level)
        assert result["content"][0]["text"] == "done"
        (progress, first), (log, second) = server.sent
        assert (progress, log) == ("notifications/progress", "notifications/message")
        assert first == {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
        assert second["data"] == "a log entry"
        server.sent.clear()
        await server.call("work")  # neither was asked for
        assert server.sent == []


@requirement("R-MOA-06", "R-MOA-12")
async def test_an_error_of_the_server_is_the_outcome() -> None:
    def refuse() -> str:
        raise MCPError(-32042, "Open this page", {"url": "x"})

    async with provided(refuse) as server:
        answer = await server.request("tools/call", {"name": "refuse"})
        assert isinstance(answer, MessageMcpError)
        assert (answer.error.code, answer.error.message) == (-32042, "Open this page")
        assert answer.error.data == {"url": "x"}


@requirement("R-MOA-13")
@pytest.mark.parametrize("method", ["initialize", "ping", "unknown/method", "tools/"])
async def test_there_is_no_handshake_and_an_unknown_method_is_an_inner_error(method: str) -> None:
    async with provided(lookup) as server:
        answer = await server.request(method)
        assert isinstance(answer, MessageMcpError)
        assert answer.error.code == -32601


async def test_params_that_do_not_fit_are_an_inner_error() -> None:
    async with provided(lookup) as server:
        answer = await server.request("tools/call", {"name": 1})
        assert isinstance(answer, MessageMcpError)
        assert answer.error.code == -32602


async def test_discovery_names_the_server() -> None:
    async with provided(lookup) as server:
        result = await server.result("server/discover")
        assert result["supportedVersions"] == [MCP_VERSION]
        assert "tools" in result["capabilities"]


@requirement("R-MOA-12")
async def test_a_server_that_cannot_start_is_a_failed_backend() -> None:
    @asynccontextmanager
    async def broken(_: Server[Any]) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    async with provided(Server("broken", lifespan=broken)) as server:
        for _ in range(2):
            with pytest.raises(McpBackendFailed):
                await server.request("ping")


async def test_the_lifespan_is_entered_once_and_left_with_the_registration() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: MCPServer[str]) -> AsyncIterator[str]:
        events.append("start")
        yield "state"
        events.append("stop")

    given = MCPServer("db", lifespan=lifespan)

    @given.tool()
    def read(context: Context[str, Any]) -> str:
        return context.request_context.lifespan_context

    async with provided(given) as server:
        assert server.name == "db"
        assert events == []
        for _ in range(2):
            assert (await server.call("read"))["content"][0]["text"] == "state"
        assert events == ["start"]
    assert events == ["start", "stop"]


@requirement("R-MOA-11")
async def test_removing_a_server_cancels_its_tools() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with provided(wait) as server:
        call = asyncio.create_task(server.call("wait"))
        await started.wait()
        await server.registration.aclose()
        assert stopped.is_set()
        with pytest.raises(RequestCancelled):
            await call


class Glossary:
    """Some tools with common data."""

    def __init__(self) -> None:
        self.terms = {"lane": "an order of messages"}

    @accord.tool
    async def define(self, term: str) -> str:
        """Define a term."""
        return self.terms[term]


async def test_marked_methods_of_an_object_are_tools() -> None:
    async with provided(Glossary()) as server:
        result = await server.call("define", {"term": "lane"})
        assert result["content"][0]["text"] == "an order of messages"


def test_servers_of_a_session_have_different_names() -> None:
    given = [lookup, MCPServer("tools"), MCPServer("tools"), Server("other")]
    names = [named.name for named in servers_from(given, taken=["tools", "other"])]
    assert names == ["tools-2", "tools-3", "tools-4", "other-2"]


@pytest.mark.parametrize("wrong", [None, "lookup", object(), MCPServer])
def test_what_is_not_a_tool_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="expected a function"):
        servers_from([wrong])


def test_two_functions_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="'lookup'"):
        servers_from([lookup, lookup])


def test_tools_do_not_configure_the_logging_of_the_program() -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    servers_from([lookup])
    assert (root.handlers, root.level) == before


# A server of an older revision.


def old_server(arrived: Callable[[], Awaitable[object]]) -> MCPServer[Any]:
    """Return a server that counts calls per connection, and asks its client."""
    server = MCPServer("counter")

    @server.tool()
    async def count(context: Context[Any, Any]) -> int:
        state = context.session._connection.state
        state["calls"] = state.get("calls", 0) + 1
        await context.report_progress(state["calls"])
        await arrived()  # a client of the library may handle it after the result
        return state["calls"]

    @server.tool()
    async def ask(context: Context[Any, Any]) -> str:
        await context.session.list_roots()
        return "asked"

    @server.resource("note://one")
    def note() -> str:
        return "a note"

    @server.prompt()
    def review(topic: str) -> str:
        return f"Review {topic}"

    return server


@pytest.mark.filterwarnings("ignore:The roots capability is deprecated")
async def test_a_server_with_a_handshake_is_provided_through_a_client() -> None:
    arrived = asyncio.Event()
    async with provided(Client(old_server(arrived.wait), mode="legacy")) as server:
        server.arrived = arrived
        assert server.name == "counter"
        listed = await server.result("tools/list")
        assert [tool["name"] for tool in listed["tools"]] == ["count", "ask"]
        for number in (1, 2):  # one connection for all requests
            result = await server.call("count", progressToken=7)
            assert result["content"][0]["text"] == str(number)
            arrived.clear()
        assert [params["progress"] for _, params in server.sent] == [1, 2]
        refused = await server.request("tools/call", {"name": "ask"})  # of its client
        assert isinstance(refused, MessageMcpError)
        resources = await server.result("resources/list")
        assert [each["uri"] for each in resources["resources"]] == ["note://one"]
        read = await server.result("resources/read", {"uri": "note://one"})
        assert read["contents"][0]["text"] == "a note"
        assert (await server.result("resources/templates/list"))["resourceTemplates"] == []
        prompts = await server.result("prompts/list")
        assert [each["name"] for each in prompts["prompts"]] == ["review"]
        got = await server.result("prompts/get", {"name": "review", "arguments": {"topic": "x"}})
        assert got["messages"][0]["content"]["text"] == "Review x"
