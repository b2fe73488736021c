"""The agent's side of MCP over ACP, against a client written by hand."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the library `mcp` is not installed")

from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest

from accord import (
    LocalProtocolError,
    McpBackendFailed,
    McpLimitExceeded,
    McpServerAcp,
    McpServerError,
    McpServerUnavailable,
    MemoryStore,
    RequestError,
    Session,
    Turn,
)
from accord.installed import install_command
from accord.mcp import McpConnection, binding_error
from accord.mcp.connections import acp_transport
from accord.mcp.consumer import McpConsumer
from accord.wire.shared import MessageMcpNotification, MessageMcpRequest
from raw_mcp_provider import BOTH, LOOKUP, SERVER, RawProvider, UsesMcp, raw_provider
from requirement import requirement


async def call(turn: Turn, **options: Any) -> Any:
    """Call the tool of the client; return its result."""
    tools = (await turn.session.connect_mcp())["tools"]
    return await tools.call("lookup", {"term": "lane"}, **options)


async def ended(provider: RawProvider, prompt: asyncio.Future[Any]) -> None:
    """Wait until a prompt and its turn have ended."""
    answer = await prompt
    assert "error" not in answer, answer
    if provider.version == 2:
        idle = await provider.ended_turns.get()
        assert idle["stopReason"] == "end_turn", idle


@BOTH
@requirement("R-MOA-01", "R-MOA-09", "R-MOA-13")
async def test_agent_calls_a_tool_of_the_client(version: int) -> None:
    results: asyncio.Queue[Any] = asyncio.Queue()

    async def work(turn: Turn) -> None:
        assert turn.session.mcp_servers == (McpServerAcp("tools", "S"),)
        connections = await turn.session.connect_mcp()
        assert not connections.failed
        assert [tool.name for tool in connections["tools"].tools] == ["lookup"]
        results.put_nowait(await call(turn))

    async with raw_provider(version, work) as provider:
        mcp = (
            provider.capabilities["mcpCapabilities"]
            if version == 1
            else provider.capabilities["session"]["mcp"]
        )
        assert mcp["acp"] == (True if version == 1 else {})
        await provider.open(SERVER)
        prompt = provider.prompt()
        asked = await provider.asked.get()
        params = asked["params"]
        assert params["serverId"] == "S"
        assert params["method"] == "tools/call"
        assert params["params"]["arguments"] == {"term": "lane"}
        meta = params["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "UsesMcp"
        provider.respond_text(asked["id"], "a queue of messages")
        result = await results.get()
        assert result.content[0].text == "a queue of messages"
        await ended(provider, prompt)
        assert provider.methods == ["server/discover", "tools/list", "tools/call"]


@BOTH
async def test_agent_that_does_not_declare_the_transport_refuses_the_server(version: int) -> None:
    class Plain(UsesMcp):
        mcp_transports = frozenset({"stdio"})

    async def work(turn: Turn) -> None: ...

    async with raw_provider(version, work, agent=Plain(work)) as provider:
        assert '"acp"' not in json.dumps(provider.capabilities)
        answer = await provider.open(SERVER)
        assert answer["error"]["code"] == -32602


@BOTH
@requirement("R-MOA-10")
async def test_each_request_has_an_id_of_its_own(version: int) -> None:
    async def work(turn: Turn) -> None:
        await asyncio.gather(call(turn), call(turn))

    async with raw_provider(version, work) as provider:
        await provider.open(SERVER)
        prompt = provider.prompt()
        both = [await provider.asked.get(), await provider.asked.get()]
        ids = {asked["params"]["requestId"] for asked in both}
        assert len(ids) == 2
        assert not ids & {asked["id"] for asked in both}
        assert not ids & {str(asked["id"]) for asked in both}
        for asked in reversed(both):
            provider.respond_text(asked["id"], "done")
        await ended(provider, prompt)


@BOTH
@requirement("R-MOA-09", "R-MOA-07", "R-MOA-15")
async def test_progress_reaches_its_request_only_while_it_runs(version: int) -> None:
    heard: list[Any] = []
    first = asyncio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, total, message))
        first.set()

    async def work(turn: Turn) -> None:
        await call(turn, on_progress=progress)
        await turn.say("after")
        await call(turn)

    async with raw_provider(version, work) as provider:
        await provider.open(SERVER)
        prompt = provider.prompt()
        asked = await provider.asked.get()
        token = asked["params"]["params"]["_meta"]["progressToken"]
        report = {"progressToken": token, "progress": 1, "total": 4, "message": "one of four"}
        reported = provider.notification_of(asked, "notifications/progress", report)
        unknown = json.loads(json.dumps(reported))
        unknown["params"]["requestId"] = "another"
        foreign = json.loads(json.dumps(reported))
        foreign["params"]["serverId"] = "another"
        invalid = json.loads(json.dumps(reported))
        invalid["params"]["params"] = [1]  # R-MOA-05: not an object
        provider.send(unknown, foreign, invalid, reported)
        await first.wait()
        done = {"content": [], "resultType": "complete"}
        # The late one is in the same read as the outcome.
        provider.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"result": done}}, reported)
        second = await provider.asked.get()
        provider.send(reported)
        provider.respond_text(second["id"], "done")
        await ended(provider, prompt)
        assert heard == [(1.0, 4.0, "one of four")]


@BOTH
@requirement("R-MOA-15")
async def test_notification_after_an_error_is_dropped(version: int) -> None:
    heard: list[float] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async def work(turn: Turn) -> None:
        client = (await turn.session.connect_mcp())["tools"].client
        with pytest.raises(MCPError):
            await client.call_tool("lookup", {}, progress_callback=progress)

    async with raw_provider(version, work) as provider:
        await provider.open(SERVER)
        prompt = provider.prompt()
        asked = await provider.asked.get()
        token = asked["params"]["params"]["_meta"]["progressToken"]
        before, after = (
            provider.notification_of(
                asked, "notifications/progress", {"progressToken": token, "progress": done}
            )
            for done in (1, 2)
        )
        error = {"code": -33002, "message": "broken"}
        # In one read.
        provider.send(before, {"jsonrpc": "2.0", "id": asked["id"], "error": error}, after)
        await ended(provider, prompt)
        assert heard == [1]


@BOTH
@requirement("R-MOA-11")
async def test_cancel_cancels_the_outer_request(version: int) -> None:
    async def work(turn: Turn) -> None:
        await call(turn)

    async with raw_provider(version, work) as provider:
        await provider.open(SERVER)
        prompt = provider.prompt()
        asked = await provider.asked.get()
        provider.send(
            {
                "jsonrpc": "2.0",
                "method": "session/cancel",
                "params": {"sessionId": provider.session_id},
            }
        )
        assert await provider.cancelled.get() == asked["id"]
        provider.fail(asked["id"], -32800, "Request cancelled")
        answer = await prompt
        if version == 1:
            assert answer["result"]["stopReason"] == "cancelled"


CODES = {
    -33000: McpLimitExceeded,
    -33001: McpServerUnavailable,
    -33002: McpBackendFailed,
    -32603: RequestError,
}


@BOTH
@pytest.mark.parametrize("code", CODES)
@requirement("R-MOA-12")
async def test_error_of_the_connection_is_not_the_server_s(version: int, code: int) -> None:
    raised: list[Exception] = []

    async def work(turn: Turn) -> None:
        connection = (await turn.session.connect_mcp())["tools"]
        for attempt in (connection.call, connection.client.call_tool):
            try:
                await attempt("lookup", {})
            except Exception as exc:  # noqa: BLE001  # the test looks at it
                raised.append(exc)

    async with raw_provider(version, work) as provider:
        await provider.open(SERVER)
        prompt = provider.prompt()
        asked = await provider.asked.get()
        provider.fail(asked["id"], code, "not now", {"serverId": "S"})
        # The same code from the server itself means something else.
        asked = await provider.asked.get()
        provider.send(
            {
                "jsonrpc": "2.0",
                "id": asked["id"],
                "result": {"error": {"code": code, "message": "m"}},
            }
        )
        await ended(provider, prompt)
    outer, inner = raised
    assert isinstance(outer, CODES[code])
    assert isinstance(outer, RequestError)
    assert (outer.code, outer.message) == (code, "not now")
    assert isinstance(outer.__cause__, MCPError)
    assert binding_error(outer.__cause__) is outer
    assert isinstance(inner, MCPError)
    assert inner.code == code
    assert binding_error(inner) is None


@BOTH
@requirement("R-MOA-06", "R-MOA-12")
async def test_outcomes_are_read_leniently_and_others_are_failures(version: int) -> None:
    raised: list[Any] = []

    async def work(turn: Turn) -> None:
        for _ in range(6):
            try:
                raised.append((await call(turn)).content)
            except (McpServerError, RequestError) as exc:
                raised.append(exc)

    error = {"code": -32602, "message": "no such term", "data": {"term": "lane"}, "more": 1}
    text = {"content": [], "resultType": "complete"}
    outcomes: list[Any] = [
        {"error": error, "_meta": {"a": 1}},
        {"result": text, "error": error},  # the result has precedence
        {},
        {"result": None},  # valid in the carrier, but no result of a tool call
        "text",
        {"error": {"code": "x"}},
    ]
    async with raw_provider(version, work) as provider:
        await provider.open(SERVER)
        prompt = provider.prompt()
        for outcome in outcomes:
            asked = await provider.asked.get()
            provider.send({"jsonrpc": "2.0", "id": asked["id"], "result": outcome})
        await ended(provider, prompt)
    refused, both, *others = raised
    assert isinstance(refused, McpServerError)
    assert (refused.code, str(refused)) == (-32602, "no such term")
    assert both == []
    assert [type(other) for other in others] == [McpBackendFailed] * 4


@BOTH
async def test_server_that_cannot_be_reached_is_reported_and_others_work(version: int) -> None:
    seen: dict[str, Any] = {}

    async def work(turn: Turn) -> None:
        connections = await turn.session.connect_mcp()
        seen.update(failed=dict(connections.failed), names=list(connections))
        again = await turn.session.connect_mcp()
        assert again is connections

    async with raw_provider(version, work) as provider:
        provider.takes_all = True
        await provider.open({"type": "acp", "name": "gone", "serverId": "G"}, SERVER)
        prompt = provider.prompt()
        for _ in range(2):
            asked = await provider.asked.get()
            if asked["params"]["serverId"] == "G":
                provider.fail(asked["id"], -33001, "no such server")
            else:  # the server does not describe itself
                missing = {"error": {"code": -32601, "message": "no such method"}}
                provider.send({"jsonrpc": "2.0", "id": asked["id"], "result": missing})
        asked = await provider.asked.get()
        assert asked["params"]["method"] == "tools/list"
        provider.respond(asked["id"], provider.listed())
        await ended(provider, prompt)
        assert seen == {"failed": {"gone": "no such server"}, "names": ["tools"]}


@BOTH
async def test_connections_end_with_the_session(version: int) -> None:
    kept: list[McpConnection] = []
    sessions: list[Session] = []

    async def work(turn: Turn) -> None:
        sessions.append(turn.session)
        kept.append((await turn.session.connect_mcp())["tools"])

    async with raw_provider(version, work) as provider:
        await provider.open(SERVER)
        await ended(provider, provider.prompt())
        (connection,) = kept
        await provider.call("session/close", {"sessionId": provider.session_id})
        assert connection.is_lost
        with pytest.raises(McpServerError, match="not connected"):
            await connection.call("lookup", {})
        with pytest.raises(LocalProtocolError, match="closed"):
            await sessions[0].connect_mcp()


@BOTH
@requirement("R-MOA-08")
async def test_servers_can_be_used_before_the_session_is_open(version: int) -> None:
    class Early(UsesMcp):
        async def open_session(self, session: Session) -> None:
            tools = (await session.connect_mcp())["tools"].tools
            session.data["tools"] = [tool.name for tool in tools]
            raise RequestError("not today")

    async def work(turn: Turn) -> None: ...

    async with raw_provider(version, work, agent=Early(work)) as provider:
        answer = await provider.open(SERVER)
        assert answer["error"]["message"] == "not today"
        # Nothing stays connected: the end of this test would show the task.


@BOTH
async def test_subagent_uses_the_connections_of_its_session(version: int) -> None:
    async def work(turn: Turn) -> None:
        connections = await turn.session.connect_mcp()
        async with turn.subagent("helper") as helper:
            assert await helper.connect_mcp() is connections

    async with raw_provider(version, work) as provider:
        await provider.open(SERVER)
        await ended(provider, provider.prompt())


@BOTH
async def test_list_of_tools_follows_the_server(version: int) -> None:
    names: asyncio.Queue[list[str]] = asyncio.Queue()
    proceed = asyncio.Event()

    async def work(turn: Turn) -> None:
        connection = (await turn.session.connect_mcp())["tools"]
        names.put_nowait([tool.name for tool in connection.tools])
        await proceed.wait()
        await connection.call("lookup", {})
        names.put_nowait([tool.name for tool in connection.tools])

    async with raw_provider(version, work) as provider:
        provider.takes_all = True
        await provider.open(SERVER)
        prompt = provider.prompt()
        asked = await provider.asked.get()
        found = {"capabilities": {"tools": {"listChanged": True}}}
        provider.respond(asked["id"], provider.discovered | found)
        asked = await provider.asked.get()
        provider.respond(asked["id"], provider.listed())
        assert await names.get() == []
        listen = await provider.asked.get()
        assert listen["params"]["method"] == "subscriptions/listen"
        # The server names the subscription by the only id that it knows.
        meta = {"io.modelcontextprotocol/subscriptionId": listen["params"]["requestId"]}
        acknowledged = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        provider.send(
            provider.notification_of(
                listen, "notifications/subscriptions/acknowledged", acknowledged
            ),
            provider.notification_of(listen, "notifications/tools/list_changed", {"_meta": meta}),
        )
        asked = await provider.asked.get()
        assert asked["params"]["method"] == "tools/list"
        provider.respond(asked["id"], provider.listed(LOOKUP))
        proceed.set()
        # This outcome is read after the list.
        asked = await provider.asked.get()
        provider.respond_text(asked["id"], "done")
        assert await names.get() == ["lookup"]
        await ended(provider, prompt)
        await provider.call("session/close", {"sessionId": provider.session_id})
        assert await provider.cancelled.get() == listen["id"]


@BOTH
async def test_slow_reader_of_progress_gets_the_latest_and_none_after_the_end(version: int) -> None:
    heard: list[float] = []
    begun, proceed = asyncio.Event(), asyncio.Event()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(done)
        begun.set()
        await proceed.wait()

    async def work(turn: Turn) -> None:
        await call(turn, on_progress=progress)
        proceed.set()

    async with raw_provider(version, work) as provider:
        await provider.open(SERVER)
        prompt = provider.prompt()
        asked = await provider.asked.get()
        token = asked["params"]["params"]["_meta"]["progressToken"]
        reports = [
            provider.notification_of(
                asked, "notifications/progress", {"progressToken": token, "progress": done}
            )
            for done in range(1, 4)
        ]
        provider.send(*reports)
        await begun.wait()
        provider.respond_text(asked["id"], "done")
        await ended(provider, prompt)
        assert heard == [1]


async def test_notifications_that_the_library_does_not_take_are_bounded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: asyncio.Queue[MessageMcpRequest] = asyncio.Queue()

    async def send(request: MessageMcpRequest, settled: Any) -> Any:
        sent.put_nowait(request)
        await asyncio.Event().wait()

    consumer = McpConsumer(send)
    async with asyncio.timeout(20), acp_transport(consumer, "S") as (received, requests):
        request = JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params={})
        await requests.send(SessionMessage(request))
        key = await sent.get()
        for _ in range(3000):
            consumer.receive(
                MessageMcpNotification(
                    server_id="S", request_id=key.request_id, method="notifications/progress"
                )
            )
        assert received.statistics().current_buffer_used == 1000
        assert caplog.text.count("notifies too fast") == 1


@BOTH
async def test_session_that_is_loaded_with_other_servers_uses_those(version: int) -> None:
    names: asyncio.Queue[list[str]] = asyncio.Queue()

    async def work(turn: Turn) -> None:
        names.put_nowait(list(await turn.session.connect_mcp()))

    agent = UsesMcp(work)
    agent.store = MemoryStore()
    async with raw_provider(version, work, agent=agent) as provider:
        await provider.open(SERVER)
        await ended(provider, provider.prompt())
        assert await names.get() == ["tools"]
        params: dict[str, Any] = {"sessionId": provider.session_id, "cwd": "/"}
        for servers, expected in (([SERVER], 2), ([SERVER | {"name": "x", "serverId": "X"}], 4)):
            method = "session/load" if version == 1 else "session/resume"
            answer = await provider.call(method, params | {"mcpServers": servers})
            assert "error" not in answer, answer
            provider.ended_turns = asyncio.Queue()
            await ended(provider, provider.prompt())
            assert await names.get() == [servers[0]["name"]]
            assert len(provider.methods) == expected  # two for each new connection


@BOTH
async def test_missing_library_is_named(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accord.mcp.connections", None)
    raised: list[str] = []

    async def work(turn: Turn) -> None:
        try:
            await turn.session.connect_mcp()
        except ImportError as exc:
            raised.append(str(exc))

    async with raw_provider(version, work) as provider:
        await provider.open(SERVER)
        await ended(provider, provider.prompt())
    assert raised == [f"MCP servers need the extra: {install_command('mcp')}"]
