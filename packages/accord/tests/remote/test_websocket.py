"""Agents behind a WebSocket server, and clients of them, over real sockets."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as ws_connect
from websockets.exceptions import InvalidStatus

import accord
from accord import Agent, Turn
from accord.errors import ConnectionLost, TransportError
from accord.remote.access import ConnectionLimits
from remote.servers import hypercorn, listener
from requirement import requirement

TOKEN = "a token of a test, long enough"
serve_app = listener


@pytest.fixture(autouse=True, params=[listener, hypercorn], ids=["listener", "hypercorn"])
def each_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with both servers."""
    monkeypatch.setattr(f"{__name__}.serve_app", request.param)


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        async with turn.tool("Ask", kind="edit") as call:
            allowed = await call.permission()
        await turn.say(f"{turn.text} {allowed}")


@asynccontextmanager
async def serving(agent: Any = Echo, **options: Any) -> AsyncGenerator[str, None]:
    async with serve_app(accord.asgi(agent, **{"token": TOKEN, **options})) as address:
        yield f"ws://{address}"


@asynccontextmanager
async def raw(url: str, **options: Any) -> AsyncGenerator[ClientConnection, None]:
    """Connect without Accord's client."""
    given = {"additional_headers": {"Authorization": f"Bearer {TOKEN}"}, "compression": None}
    async with ws_connect(f"{url}/acp", **{**given, **options}) as connection:
        yield connection


async def ask(url: str, **options: Any) -> str:
    async with accord.connect(
        url, permissions=lambda request: "allow", **{"token": TOKEN, **options}
    ) as agent:
        session = await agent.new_session("/")
        async with session.prompt("hello") as turn:
            await turn.wait()
        return turn.text


@pytest.mark.parametrize("version", [1, 2])
async def test_turn_with_a_permission_request(version: int) -> None:
    async with serving() as url:
        assert await ask(url, versions=(version,)) == "hello True"


async def test_one_agent_object_can_serve_all_connections() -> None:
    agent = Echo()
    async with serving(agent) as url:
        answers = await asyncio.gather(*(ask(url) for _ in range(5)))
        assert answers == ["hello True"] * 5


async def test_command_is_started_for_each_connection() -> None:
    command = [sys.executable, "-m", "accord", "agent", "script"]
    async with serving(command) as url, accord.connect(url, token=TOKEN) as agent:
        session = await agent.new_session("/")
        async with session.prompt("echo hello") as turn:
            await turn.wait()
        assert "hello" in turn.text


@requirement("R-SEC-04")
def test_application_without_a_token_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACCORD_TOKEN", raising=False)
    with pytest.raises(ValueError, match="needs token=… or authenticate=…"):
        accord.asgi(Echo)


WRONG_URLS = [
    ("ws://example.com/acp", "unencrypted"),
    ("ws://user:secret@127.0.0.1/acp", "user or a password"),
    ("ws:///acp", "no host"),
    ("ws://127.0.0.1/acp#x", "fragment"),
]


@requirement("R-SEC-07", "R-WS-12")
async def test_url_that_must_not_be_used() -> None:
    for url, why in WRONG_URLS:
        with pytest.raises(ValueError, match=why) as refused:
            await ask(url)
        assert "secret" not in str(refused.value), (url, why)


async def test_server_that_goes_away_during_a_turn() -> None:
    started = asyncio.Event()

    class Slow(Agent):
        async def prompt(self, turn: Turn) -> None:
            started.set()
            await asyncio.Event().wait()

    app = accord.asgi(Slow, token=TOKEN)
    async with serve_app(app) as address, accord.connect(f"ws://{address}", token=TOKEN) as agent:
        session = await agent.new_session("/")
        async with session.prompt("wait") as turn:
            await started.wait()
            draining = asyncio.ensure_future(app.drain(0.05))
            with pytest.raises(ConnectionLost, match="going away"):
                await turn.wait()
        await draining
        with pytest.raises(TransportError, match="status 503"):
            await ask(f"ws://{address}")


@requirement("R-WS-15")
async def test_client_that_sends_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accord.remote.asgi_socket.FIRST_MESSAGE_S", 0.05)
    async with serving() as url, raw(url) as connection:
        async with asyncio.timeout(20):
            await connection.wait_closed()
        assert connection.close_code == 1008


@requirement("R-WS-11")
async def test_no_subprotocol_and_no_extension_is_selected() -> None:
    async with serving() as url, raw(url, subprotocols=["acp", "other"]) as connection:
        assert connection.response is not None
        assert connection.subprotocol is None
        assert "Sec-WebSocket-Extensions" not in connection.response.headers


@requirement("R-WS-01")
async def test_each_connection_has_an_id_of_its_own() -> None:
    async with serving() as url, raw(url) as first, raw(url) as second:
        ids = {
            connection.response.headers["Acp-Connection-Id"]
            for connection in (first, second)
            if connection.response is not None
        }
        assert len(ids) == 2
        assert all(len(name) == 32 for name in ids)


@requirement("R-WS-16")
async def test_agent_that_fails_reveals_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Echo):
        def __init__(self) -> None:
            raise ValueError("a secret of the server")

    async with serving(Broken) as url, raw(url) as connection:
        async with asyncio.timeout(20):
            await connection.wait_closed()
        assert connection.close_code == 1011
        assert connection.close_reason == "internal error"
    assert "a secret of the server" in caplog.text


async def test_malformed_messages_are_answered() -> None:
    async with serving() as url, raw(url) as connection:
        await connection.send(b"binary is ignored")
        for text, code in (("{", -32700), ("[]", -32600), ("42", -32600)):
            await connection.send(text)
            answer = json.loads(await connection.recv())
            assert (answer["id"], answer["error"]["code"]) == (None, code)


@requirement("R-SEC-08", "R-WS-04")
async def test_connections_are_limited() -> None:
    limits = ConnectionLimits(connections=3, per_principal=2, starts_per_minute=4)

    def authenticate(request: accord.RemoteRequest) -> accord.Principal:
        return accord.Principal(request.headers["x-user"][0])

    async def status(url: str, user: str) -> tuple[int, str]:
        with pytest.raises(InvalidStatus) as refused:
            await ws_connect(f"{url}/acp", additional_headers={"X-User": user})
        response = refused.value.response
        return response.status_code, response.headers["Retry-After"]

    def user(name: str) -> dict[str, Any]:
        return {"additional_headers": {"X-User": name}}

    options = {"token": None, "authenticate": authenticate, "limits": limits}
    async with serving(**options) as url, raw(url, **user("a")):
        async with raw(url, **user("a")):
            assert await status(url, "a") == (429, "5")
            async with raw(url, **user("b")):
                assert await status(url, "c") == (503, "5")
        async with raw(url, **user("b")):
            code, retry = await status(url, "b")
            assert code == 429
            assert 1 <= int(retry) <= 60


@requirement("R-SEC-10")
async def test_log_has_no_payload_and_no_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="accord.remote")
    caplog.set_level("INFO")
    async with serving() as url:
        await ask(url)
        with pytest.raises(TransportError):
            await ask(url, token="a wrong token of a test")
    assert "transport=websocket" in caplog.text
    assert "status=401" in caplog.text
    for secret in ("hello", TOKEN, "a wrong token"):
        assert secret not in caplog.text


async def test_http_requests_are_answered() -> None:
    async with serving() as url:
        for path, status in (("/health", 200), ("/ready", 200), ("/acp", 406), ("/other", 404)):
            host, _, port = url.removeprefix("ws://").partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            line = await reader.readline()
            await reader.read()
            writer.close()
            await writer.wait_closed()
            assert line.split()[1] == str(status).encode(), (path, status)
