"""Attacks by clients that have logged in: ids of others, sizes, output that is not read."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import Turn
from remote.attackers import LOGIN, TOKEN, Recording, http, raw, status_of
from remote.http_peer import HttpPeer, http_peer
from remote.servers import served
from remote.test_attacks_requests import UPGRADE
from remote.test_attacks_sockets import HAS_PROC, connected, ends, is_served, memory_kib
from requirement import requirement

MIB = 1024 * 1024


class Talkative(Recording):
    """Says as many mebibytes as the prompt says."""

    async def prompt(self, turn: Turn) -> None:
        if not turn.text.isdecimal():
            await super().prompt(turn)
            return
        for _ in range(int(turn.text)):
            await turn.say("x" * MIB)


@asynccontextmanager
async def serving(agent: Any = Talkative, **options: Any) -> AsyncGenerator[str, None]:
    async with served(accord.asgi(agent, **{"token": TOKEN, **options})) as address:
        yield address


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


# Ids.


@requirement("R-HTTP-20", "R-SEC-05")
async def test_ids_of_connections_cannot_be_guessed() -> None:
    """T7: they are random, and no variant of one is another's."""
    async with serving() as address:
        names: list[str] = []
        for _ in range(20):
            async with raw(address) as client:
                assert client.socket.response is not None
                names.append(client.socket.response.headers["Acp-Connection-Id"])
        async with http_peer(address) as peer:
            await peer.initialize()
            assert peer.connection is not None
            names.append(own := peer.connection)
            assert all(re.fullmatch("[0-9a-f]{32}", name) for name in names)
            assert len(set(names)) == len(names)
            bits = dict.fromkeys(range(128), 0)
            for name in names:
                for number in bits:
                    bits[number] += int(name, 16) >> number & 1
            constant = [number for number, ones in bits.items() if ones in (0, len(names))]
            assert len(constant) <= 1
            guesses = [f"{int(own, 16) + step:032x}" for step in (-2, -1, 1, 2)]
            guesses += [own.upper(), own[:-1], own + "0", f"{own}/", "*", "0" * 32, names[0]]
            for guess in guesses:
                if guess != own:
                    peer.connection = guess
                    assert await peer.delete() == 404
                    assert (await peer.get()).status_code == 404
            peer.connection = own
            assert await peer.delete() == 202


@requirement("R-SEC-05")
async def test_session_of_another_has_nothing_on_ones_own_stream() -> None:
    """T8: a GET of another's session on an own connection."""

    def authenticate(request: accord.RemoteRequest) -> accord.Principal:
        return accord.Principal(request.headers["x-user"][0])

    agent = Talkative()
    options: Any = {"token": None, "authenticate": authenticate}
    async with (
        serving(agent, **options) as address,
        as_user(address, "ada") as ada,
        as_user(address, "bob") as bob,
    ):
        await ada.initialize()
        await bob.initialize()
        async with ada.stream() as common:
            session = await ada.new_session(common)
            async with ada.stream(session) as own, bob.stream(session) as others:
                turn = await ada.request(
                    "session/prompt", {"sessionId": session, "prompt": text("hello")}, session
                )
                await own.response_to(turn)
                await bob.request(
                    "session/prompt", {"sessionId": session, "prompt": text("mine")}, session
                )
                answer = await others.find(method=None, id=bob.next_id)
                assert answer["error"]["code"] == -32002
                assert [event for event in others.events if event is not answer] == []
        taken, bob.connection = bob.connection, ada.connection
        assert (await bob.get(session)).status_code == 404
        assert (await bob.get()).status_code == 404
        assert await bob.delete() == 404
        bob.connection = taken
    assert agent.prompts == ["hello"]


@asynccontextmanager
async def as_user(address: str, name: str) -> AsyncGenerator[HttpPeer, None]:
    async with http_peer(address) as peer:
        peer.http.headers["X-User"] = name
        yield peer


# Sizes.


@requirement("R-WS-13", "R-SEC-08")
async def test_message_of_31_mib_passes_and_one_of_33_ends_the_connection() -> None:
    """T10."""
    async with serving() as address, raw(address, max_size=64 * MIB) as client:
        await client.initialize()
        answer = await client.request("session/new", cwd="/", mcpServers=[])
        session = answer["result"]["sessionId"]
        large = await client.request(
            "session/prompt", sessionId=session, prompt=text("y" * (31 * MIB))
        )
        assert large["result"]["stopReason"] == "end_turn"
        async with upgraded(address) as (reader, writer):
            writer.write(ws_frame(0x81, b"")[:1] + struct.pack(">BQ", 0xFF, 33 * MIB) + bytes(MIB))
            closing = await ends(reader)
            assert closing[:1] == b"\x88"
            assert int.from_bytes(closing[2:4], "big") == 1009
        await is_served(address)


@requirement("R-SEC-08")
@pytest.mark.parametrize(
    "opening", ["[", '{"a":', '{"jsonrpc":"2.0","id":1,"method":"x","params":[']
)
async def test_deep_json_is_answered_with_an_error(opening: str) -> None:
    """T10: nesting, which needs stack."""
    deep = opening * 50_000
    async with serving(allow_mcp=()) as address, raw(address) as client:
        await client.initialize()
        for closing in ("", "]" * 50_000, "}" * 50_000):
            await client.send(deep + closing)
            assert (await client.receive())["error"]["code"] in (-32700, -32600)
        answer = await client.request("session/new", cwd="/", mcpServers=[])
        assert "result" in answer
        async with http_peer(address) as peer:
            await peer.initialize()
            assert (await peer.post(deep)).status_code == 400
            assert await peer.delete() == 202


def ws_frame(first: int, payload: bytes) -> bytes:
    """Return a frame of a client, with a mask of zeros."""
    size = len(payload)
    if size < 126:
        head = struct.pack(">BB", first, 0x80 | size)
    elif size < 65536:
        head = struct.pack(">BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack(">BBQ", first, 0x80 | 127, size)
    return head + b"\0\0\0\0" + payload


@asynccontextmanager
async def upgraded(
    address: str,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    async with connected(address) as (reader, writer):
        writer.write(f"GET /acp HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}{LOGIN}\r\n".encode())
        async with asyncio.timeout(20):
            assert status_of(await reader.readuntil(b"\r\n\r\n")) == 101
        yield reader, writer


MALFORMED = [
    struct.pack(">BBQ", 0x81, 0xFF, 1 << 62) + b"\0\0\0\0",
    struct.pack(">BBQ", 0x81, 0xFF, (1 << 64) - 1) + b"\0\0\0\0",
    b"\x81\x05hello" + bytes(8),  # without a mask
    ws_frame(0xC1, gzip.compress(b"x" * MIB)),  # compressed
    ws_frame(0x80, b"a part of nothing"),
    ws_frame(0x89, b"x" * 126),
    ws_frame(0x09, b"a ping in parts"),
    ws_frame(0x83, b"an unknown kind"),
    ws_frame(0x01, b"{") + ws_frame(0x81, b"{}"),
]


@requirement("R-SEC-08")
async def test_malformed_frame_ends_the_connection() -> None:
    async with serving() as address:
        for data in MALFORMED:
            async with upgraded(address) as (reader, writer):
                writer.write(data)
                left = await ends(reader)
                assert left[:1] in (b"\x88", b""), data
            await is_served(address)


@pytest.mark.skipif(not HAS_PROC, reason="reads /proc")
@requirement("R-SEC-08")
async def test_flood_of_pings_takes_no_memory() -> None:
    """T10, T11: pings whose answers are not read."""
    frames = ws_frame(0x89, b"x" * 125) * 500
    async with serving() as address:
        await is_served(address)
        used = memory_kib()
        async with upgraded(address) as (reader, writer):
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(300):
                writer.write(frames)
                try:
                    async with asyncio.timeout(5):
                        await writer.drain()
                except (TimeoutError, ConnectionError):
                    break
            grown = memory_kib() - used
        await is_served(address)
    assert grown < 12 * 1024, f"{grown} KiB"


@pytest.mark.skipif(not HAS_PROC, reason="reads /proc")
@requirement("R-SEC-08")
async def test_client_that_does_not_read_costs_little_and_delays_nobody() -> None:
    """T11: the agent waits, and others are served."""
    async with serving() as address, raw(address, max_size=64 * MIB) as client:
        await client.initialize()
        answer = await client.request("session/new", cwd="/", mcpServers=[])
        session = answer["result"]["sessionId"]
        used = memory_kib()
        client.socket.transport.pause_reading()
        prompt = {"sessionId": session, "prompt": text("40")}
        await client.send(
            {"jsonrpc": "2.0", "id": "long", "method": "session/prompt", "params": prompt}
        )
        for _ in range(5):
            await is_served(address)
        assert memory_kib() - used < 30 * 1024
        client.socket.transport.resume_reading()
        assert (await client.response("long"))["result"]["stopReason"] == "end_turn"


async def test_nothing_is_compressed() -> None:
    """T23."""
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": 1, "clientCapabilities": {}},
        }
    )
    head = (
        "POST /acp HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip, br, deflate, zstd\r\n"
        f"Content-Type: application/json\r\nConnection: close\r\n{LOGIN}"
    )
    async with serving() as address:
        answer = await http(address, f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        assert status_of(answer) == 200
        assert b"content-encoding" not in answer.lower()
        packed = gzip.compress(body.encode())
        sent = f"{head}Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
        assert status_of(await http(address, sent + packed)) in (400, 415)


async def test_server_reads_no_file_for_a_client(tmp_path: Path) -> None:
    """T17: the methods for files are those of the client."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of the server")
    async with serving() as address, raw(address) as client:
        await client.initialize()
        answer = await client.request("session/new", cwd=str(tmp_path), mcpServers=[])
        session = answer["result"]["sessionId"]
        for method, params in (
            ("fs/read_text_file", {"path": str(secret)}),
            ("fs/write_text_file", {"path": str(secret), "content": ""}),
            ("terminal/create", {"command": "cat", "args": [str(secret)]}),
        ):
            answer = await client.request(method, sessionId=session, **params)
            assert answer["error"]["code"] == -32601
        link = {"type": "resource_link", "name": "secret", "uri": secret.as_uri()}
        await client.request("session/prompt", sessionId=session, prompt=[link])
    assert [os.fspath(file) for file in os.scandir(tmp_path)] == [str(secret)]
