"""What gateways do with any request, whatever its protocol is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accord.errors import ConnectionClosed
from accord.remote.access import Access, Principal
from accord_bridges.gateways.app import GatewayApp, Mount, Request
from accord_bridges.gateways.turns import AgentSessions, Conversation, GatewayError, GatewaySettings
from bridges.gateway_harness import named


def scope(path: str, **headers: str) -> dict[str, Any]:
    sent = {"host": "127.0.0.1", "authorization": "Bearer of the whole test", **headers}
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 80),
    }


class Caller:
    """The ASGI server of one request, which reports the end of the connection when it is told."""

    def __init__(self, body: bytes = b"") -> None:
        self.sent: list[Any] = []
        self.gone = asyncio.Event()
        self._first = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive(self) -> Any:
        if self._first:
            return self._first.pop()
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: Any) -> None:
        self.sent.append(event)
        if event["type"] == "http.response.body" and not event.get("more_body"):
            self.gone.set()  # the caller has all, and closes
            for _ in range(5):
                await asyncio.sleep(0)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def body(self) -> bytes:
        return b"".join(event.get("body", b"") for event in self.sent)


async def test_caller_to_whom_nothing_can_be_sent_has_left() -> None:
    caller = Caller()
    left: list[bool] = []

    async def send(_: Any) -> None:
        raise OSError("the connection is closed")

    request = Request(scope("/x"), caller.receive, send, Principal("anna"), b"")
    with pytest.raises(OSError, match="is closed"):
        async with request.until_gone(lambda: left.append(True)):
            await request.respond({})
    assert left == [True]


@pytest.mark.parametrize("streams", [True, False])
async def test_caller_that_closes_after_the_response_has_not_left(streams: bool) -> None:
    for is_complete in (True, False):
        caller, left = Caller(), asyncio.Event()
        request = Request(scope("/"), caller.receive, caller.send, Principal("test"), b"")
        async with request.until_gone(left.set):
            if streams:
                await request.start_events()
                await request.send_events(b"data: 1\n\n", more=not is_complete)
            elif is_complete:
                await request.respond({})
            caller.gone.set()
            for _ in range(5):
                await asyncio.sleep(0)
        assert left.is_set() is not is_complete


@asynccontextmanager
async def mounted(app: Any) -> AsyncGenerator[GatewayApp, None]:
    def error_body(error: GatewayError) -> Any:
        return {"wrong": str(error)}

    sessions = AgentSessions({"caller": named("caller")}, GatewaySettings())
    gate = GatewayApp(
        sessions, [Mount(error_body, "/part", app)], Access(token="of the whole test")
    )
    try:
        yield gate
    finally:
        await gate.drain(0)


async def test_part_that_fails_answers_in_the_form_of_its_protocol(state: Path) -> None:
    async def fails(_scope: Any, _receive: Any, send: Any) -> None:
        if begins:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("a secret")

    begins = False
    async with mounted(fails) as gate:
        caller = Caller()
        await gate(scope("/part"), caller.receive, caller.send)
        assert caller.status == 500
        assert json.loads(caller.body) == {"wrong": "Internal error: ValueError"}
        # After its begin, only the end of the connection tells the caller.
        begins, caller = True, Caller()
        with pytest.raises(ValueError, match="a secret"):
            await gate(scope("/part"), caller.receive, caller.send)
        assert [event["type"] for event in caller.sent] == ["http.response.start"]


async def test_first_requests_of_mcp_may_come_at_once(state: Path) -> None:
    pytest.importorskip("mcp", reason="the library `mcp` is not installed")
    from accord_bridges.gateways.mcp_server import McpGateway

    sessions = AgentSessions({"caller": named("caller")}, GatewaySettings())
    gate = GatewayApp(sessions, [McpGateway(sessions).mount()], Access(token="of the whole test"))
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    body = json.dumps(message).encode()
    callers = [Caller(body) for _ in range(3)]
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "accept": "application/json, text/event-stream",
    }
    async with asyncio.timeout(30):
        await asyncio.gather(
            *(gate(scope("/mcp", **headers), one.receive, one.send) for one in callers)
        )
    assert [one.status for one in callers] == [200] * 3
    await gate.drain(0)


async def test_session_that_is_left_while_it_opens_fails_as_a_closed_connection(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = AgentSessions({"caller": named("caller")}, GatewaySettings())
    conversation = await sessions.new("caller", Principal("test"))

    async def closed(*_: Any) -> None:
        raise ConnectionClosed("The connection was closed")

    class Link:
        has_ended = False
        answers = None
        commands = ()

        def __init__(self, _conversation: Any) -> None:
            pass

        async def ready(self) -> Any:
            await conversation.aclose()  # as at the end of the gateway
            return SimpleNamespace(agent=SimpleNamespace(call_extension=closed))

        async def aclose(self) -> None:
            pass

    monkeypatch.setattr("accord_bridges.gateways.turns._Link", Link)
    with pytest.raises(ConnectionClosed):
        await conversation.connected()
    await sessions.cancel_all(0)


async def test_session_that_a_caller_has_taken_is_not_ended_by_its_warm_up(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, has_failed = asyncio.Event(), asyncio.Event()

    async def connected(_conversation: Conversation) -> Any:
        await taken.wait()
        asyncio.get_running_loop().call_soon(has_failed.set)
        raise ConnectionClosed("The caller's turn has opened the session again, with tools")

    monkeypatch.setattr(Conversation, "connected", connected)
    sessions = AgentSessions({"caller": named("caller")}, GatewaySettings(warm=1))
    sessions.start_warm()
    caller = Principal("test")
    conversation = await sessions.new("caller", caller)
    taken.set()
    await has_failed.wait()
    await sessions.cancel_all(0)
    assert not conversation.record.closed
    assert sessions.store.read(conversation.id).agent == "caller"
