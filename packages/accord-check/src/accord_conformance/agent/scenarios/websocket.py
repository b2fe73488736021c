"""WebSocket connections: the handshake, the first message, sizes, and how they end."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from accord.text.lenient_json import is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.http_probe import address_of, initialize_message
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.network.raw_client import RawClient, Reply
from accord_conformance.network.raw_socket import RawSocket

WEBSOCKET = ("websocket",)
ACCEPTED_BYTES = 31 * 1024 * 1024
REFUSED_BYTES = 33 * 1024 * 1024
PING_S = 21.0
FIRST_MESSAGE_S = 32.0
_CLOSE_S = 3.0
LARGE_S = 30.0
_ORIGIN = "https://accord-check.example"


class _SocketProbe:
    """A raw WebSocket connection; `reply` is the response to its handshake."""

    def __init__(self, client: RawClient, reply: Reply, socket: RawSocket) -> None:
        self.client, self.reply, self.socket = client, reply, socket

    def send(self, message: Any) -> None:
        """Send a message, or any text."""
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.client.record_sent(text[:2000])
        self.socket.send_text(text)

    def answers(self, ident: Any) -> list[dict[str, Any]]:
        """Return the responses with an id."""
        parsed = (_parsed(text) for text in self.socket.texts)
        return [one for one in parsed if "method" not in one and one.get("id", "") == ident]

    async def wait_for_answer(self, ident: Any, within_s: float | None = None) -> bool:
        """Wait for a response; return whether it came."""
        within = self.client.within_s if within_s is None else within_s
        return await self.socket.wait(lambda: bool(self.answers(ident)), within)

    async def wait_for_close(self, within_s: float = _CLOSE_S) -> int | None:
        """Wait for the end of the connection; return its code, None if it is still open."""
        await self.socket.wait(lambda: False, within_s)
        return self.socket.close_code

    async def initialize(self, version: int) -> None:
        """Initialize; raise `NotExercised` if that fails."""
        self.send(initialize_message(version))
        if not await self.wait_for_answer(0):
            raise NotExercised("no response to initialize")


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if is_object(found) else {}


@asynccontextmanager
async def _connected(context: AgentContext, **headers: str) -> AsyncGenerator[_SocketProbe]:
    """Connect; raise `NotExercised` if the server refuses."""
    client = RawClient(address_of(context), within_s=context.settings.answer)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        reply, socket = await client.upgrade(named)
        if socket is None:
            raise NotExercised(f"the handshake was refused: {reply.outcome}")
        yield _SocketProbe(client, reply, socket)
    finally:
        await client.aclose()


@scenario("websocket/handshake", "R-WS-01", "R-WS-11", media=WEBSOCKET, isolated=True)
async def _handshake(context: AgentContext) -> None:
    """The handshake offers nothing, then compression."""
    async with _connected(context) as probe:
        ident = probe.reply.header("Acp-Connection-Id")
        context.judge(
            "R-WS-01",
            bool(ident),
            *probe.reply.frames,
            expected="Acp-Connection-Id in the 101 response",
            got="none",
        )
        _judge_selection(context, probe.reply, "a handshake that offers nothing")
    async with _connected(context, Sec_WebSocket_Extensions="permessage-deflate") as probe:
        _judge_selection(context, probe.reply, "an offer of compression")


def _judge_selection(context: AgentContext, reply: Reply, why: str) -> None:
    names = ("Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol")
    selected = [name for name in names if reply.header(name) is not None]
    context.judge(
        "R-WS-11",
        not selected,
        *reply.frames,
        expected=f"no extension and no subprotocol after {why}",
        got=", ".join(selected),
    )


@scenario(
    "websocket/first-message", "R-WS-02", "R-WS-07", "R-WS-16", media=WEBSOCKET, isolated=True
)
async def _first_message(context: AgentContext) -> None:
    """The first message is another request, another notification, or has a null id."""
    null = initialize_message(context.version, None)
    request: Any = {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {}}
    note = {"jsonrpc": "2.0", "method": "_accord/unheard"}
    for first, why in ((request, "a request"), (note, "a notification"), (null, "a null id")):
        async with _connected(context) as probe:
            probe.send(first)
            code = await probe.wait_for_close()
            seen = probe.client.frames[-2:]
            context.judge(
                "R-WS-02",
                code is not None,
                *seen,
                expected=f"the connection is closed, because {why} is the first message",
                got="it is still open",
                authority="derived",  # the text demands only that the client begins with it
            )
            if code is None:
                continue
            context.judge(
                "R-WS-07", code == 1002, *seen, expected="close code 1002", got=f"code {code}"
            )
            reason = probe.socket.close_reason
            reveals = "Traceback" in reason or 'File "' in reason or ".py" in reason
            context.judge(
                "R-WS-16",
                not reveals,
                *seen,
                expected="a reason without details of the agent",
                got=reason,
            )


@scenario("websocket/binary", "R-WS-03", media=WEBSOCKET, isolated=True)
async def _binary(context: AgentContext) -> None:
    """A request is sent as a binary message, then another one as text."""
    async with _connected(context) as probe:
        await probe.initialize(context.version)
        unknown: dict[str, Any] = {"jsonrpc": "2.0", "method": "_accord/unknown", "params": {}}
        probe.socket.send_binary(json.dumps({**unknown, "id": "in binary"}).encode())
        probe.send({**unknown, "id": "in text"})
        came = await probe.wait_for_answer("in text")
        ignored = not probe.answers("in binary") and not probe.socket.binaries
        got = "a response to the binary message" if came else "no response to the next one"
        context.judge(
            "R-WS-03",
            came and ignored,
            *probe.client.frames[-2:],
            expected="binary messages are ignored",
            got=got,
        )


@scenario("websocket/second-initialize", "R-WS-06", media=WEBSOCKET, isolated=True)
async def _second_initialize(context: AgentContext) -> None:
    """`initialize` is sent again."""
    async with _connected(context) as probe:
        await probe.initialize(context.version)
        probe.send(initialize_message(context.version, "again"))
        await probe.wait_for_answer("again")
        answers = probe.answers("again")
        error = answers[0].get("error") if answers else None
        code = error.get("code") if is_object(error) else None
        context.judge(
            "R-WS-06",
            code == -32600 and probe.socket.close_code is None,
            *probe.client.frames[-2:],
            expected="error -32600, and an open connection",
            got=f"error {code}" if code is not None else "a result" if answers else "no response",
        )


@scenario("websocket/sizes", "R-WS-13", media=WEBSOCKET, isolated=True)
async def _sizes(context: AgentContext) -> None:
    """Messages of 31 and of 33 MiB are sent."""
    async with _connected(context) as probe:
        await probe.initialize(context.version)
        probe.send(_large("large", ACCEPTED_BYTES))
        came = await probe.wait_for_answer("large", LARGE_S)
        code = probe.socket.close_code
        context.judge(
            "R-WS-13",
            came,
            *probe.client.frames[-1:],
            expected="a response to a message of 31 MiB",
            got="none" if code is None else f"the connection was closed with {code}",
        )
    async with _connected(context) as probe:
        await probe.initialize(context.version)
        probe.send(_large("too large", REFUSED_BYTES))
        code = await probe.wait_for_close(LARGE_S if came else _CLOSE_S)
        context.judge(
            "R-WS-13",
            # The connection may be cut before the code arrives, as the rest is not read.
            code in (1009, 1006),
            *probe.client.frames[-1:],
            expected="close code 1009 for a message of 33 MiB",
            got="an open connection" if code is None else f"code {code}",
        )


def _large(ident: str, size: int) -> bytes:
    head = f'{{"jsonrpc":"2.0","id":"{ident}","method":"_accord/unknown","params":{{"text":"'
    return head.encode() + b"x" * (size - len(head) - 3) + b'"}}'


@scenario("websocket/origin", "R-WS-05", media=WEBSOCKET, isolated=True)
async def _origin(context: AgentContext) -> None:
    """A web page of another site connects."""
    client = RawClient(address_of(context), within_s=context.settings.answer)
    try:
        reply, socket = await client.upgrade({"Origin": _ORIGIN})
        context.judge(
            "R-WS-05",
            socket is None,
            *reply.frames,
            expected=f"status 403 for the origin {_ORIGIN}",
            got=reply.outcome,
        )
    finally:
        await client.aclose()


@scenario("websocket/subprotocol-token", "R-WS-18", media=WEBSOCKET, isolated=True)
async def _subprotocol_token(context: AgentContext) -> None:
    """The token is in the list of subprotocols, which servers may accept."""
    token = context.remote.options.token
    if token is None:
        raise NotExercised("the server needs no token")
    client = RawClient(address_of(context), within_s=context.settings.answer)
    secret = "acp.bearer." + urlsafe_b64encode(token.encode()).decode().rstrip("=")
    try:
        offer = {"Sec-WebSocket-Protocol": f"acp.bearer, {secret}"}
        reply, socket = await client.upgrade(offer, login=False)
        if socket is None:
            raise NotExercised("the server accepts no token there")
        selected = reply.header("Sec-WebSocket-Protocol")
        context.judge(
            "R-WS-18",
            selected == "acp.bearer",
            *reply.frames,
            expected="the subprotocol acp.bearer is selected",
            got="the token was sent back" if selected == secret else "another subprotocol, or none",
        )
    finally:
        await client.aclose()


@scenario("websocket/ping", "R-WS-14", media=WEBSOCKET, isolated=True)
async def _ping(context: AgentContext) -> None:
    """The connection is idle: the server sends a ping every 20 seconds."""
    context.wait_once()
    async with _connected(context) as probe:
        await probe.initialize(context.version)
        came = await probe.socket.wait(lambda: probe.socket.pings > 0, PING_S)
        context.judge(
            "R-WS-14",
            came,
            *probe.reply.frames,
            expected=f"a ping within {PING_S:g} s",
            got="none",
        )


@scenario("websocket/silence", "R-WS-15", media=WEBSOCKET, isolated=True)
async def _silence(context: AgentContext) -> None:
    """The client sends nothing after the handshake."""
    context.wait_once()
    async with _connected(context) as probe:
        code = await probe.wait_for_close(FIRST_MESSAGE_S)
        context.judge(
            "R-WS-15",
            code == 1008,
            *probe.reply.frames,
            expected="close code 1008 within 30 s",
            got="an open connection" if code is None else f"code {code}",
        )


SCENARIOS = (
    _silence,
    _ping,
    _handshake,
    _first_message,
    _binary,
    _second_initialize,
    _sizes,
    _origin,
    _subprotocol_token,
)
