"""The versions of HTTP, and the ASGI servers, over which agents are served."""

from __future__ import annotations

import asyncio
import importlib
import shutil
import struct
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from h2.settings import SettingCodes
from hpack import Decoder, Encoder

import accord
from accord import Agent, Turn
from accord.remote.asgi import RemoteApp
from remote.http_peer import LIMIT_S, TOKEN, HttpPeer, http_peer
from remote.servers import served, uvicorn
from remote.test_attacks_sockets import frame
from requirement import requirement

VERSIONS = {"--http1.1": "1.1", "--http2": "2", "--http2-prior-knowledge": "2"}


class Echo(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(turn.text)


async def run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(LIMIT_S):
        output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


async def curl(url: str, *options: str) -> tuple[str, str]:
    """Return the version of HTTP and the status of a response."""
    shown = ["--silent", "--output", "/dev/null", "--write-out", "%{http_version} %{http_code}"]
    login = ["--header", f"Authorization: Bearer {TOKEN}"]
    output = await run(program("curl"), *shown, *login, *options, url)
    version, _, status = output.partition(" ")
    return version, status


@requirement("R-HTTP-03", "R-HTTP-45")
@pytest.mark.parametrize("option", VERSIONS)
async def test_version_of_http_on_a_plain_connection(option: str) -> None:
    async with served(accord.asgi(Echo, token=TOKEN)) as address:
        url = f"http://{address}/acp"
        # As a probe of Java's client: a GET without a body, here with the upgrade to h2c.
        accept = ("--header", "Accept: text/event-stream")
        assert await curl(url, option, *accept) == (VERSIONS[option], "400")
        # A POST with `Upgrade: h2c` is answered in HTTP/1.1.
        post = ("--json", '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
        version = "1.1" if option == "--http2" else VERSIONS[option]
        assert await curl(url, option, *post) == (version, "200")


@pytest.mark.slow
@requirement("R-HTTP-39")
async def test_http2_connection_has_as_many_streams_as_are_advertised() -> None:
    """By default, hypercorn ends a connection at its 1,000th stream, or after 1,000 requests."""
    app = accord.asgi(Echo, token=TOKEN)
    async with served(app) as address, asyncio.timeout(2 * LIMIT_S):
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        window = frame(8, 0, 0, (2**30).to_bytes(4, "big"))  # for the bodies of all answers
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + window)
        settings = dict[int, int]()
        while not settings:
            kind, _, payload = await next_frame(reader)
            settings = dict(struct.iter_unpack(">HI", payload)) if kind == 4 else {}
        most = settings[SettingCodes.MAX_CONCURRENT_STREAMS]
        assert most >= 1024
        fields = {":method": "POST", ":scheme": "http", ":authority": address, ":path": "/acp"}
        login = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        head = Encoder().encode({**fields, **login})
        first, *others = streams = [1 + 2 * number for number in range(most)]
        writer.write(b"".join(frame(1, 4, stream, head) for stream in streams))
        answered, decoder = dict[int, str](), Decoder()
        # All others have ended before the first one continues.
        for ending in (others, [first]):
            writer.write(b"".join(frame(0, 1, stream, b"{}") for stream in ending))
            wanted = set(ending)
            while not answered.keys() >= wanted:
                kind, stream, payload = await next_frame(reader)
                if kind == 1:
                    received: dict[Any, Any] = dict(decoder.decode(payload))
                    answered[stream] = received[":status"]
        assert answered == dict.fromkeys(streams, "400")
        writer.close()
        await writer.wait_closed()


async def next_frame(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    """Return the kind, the stream and the payload of an HTTP/2 frame."""
    head = await reader.readexactly(9)
    payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
    return head[3], int.from_bytes(head[5:], "big"), payload


def uvicorn_without_websockets(app: RemoteApp) -> AbstractAsyncContextManager[str]:
    return uvicorn(app, ws="none")


@asynccontextmanager
async def h2corn(app: RemoteApp) -> AsyncGenerator[str]:
    pytest.importorskip("h2corn")
    module: Any = importlib.import_module("h2corn")
    config = module.Config(bind=("127.0.0.1:0",), access_log=False, loop="asyncio")
    server = module.Server(app, config)
    serving = asyncio.ensure_future(server.serve())
    try:
        async with asyncio.timeout(LIMIT_S):
            await server.wait_started()
        yield str(server.addresses[0]).removeprefix("http://")
    finally:
        server.shutdown()
        await asyncio.wait([serving], timeout=LIMIT_S)


SERVERS = {
    "uvicorn": (uvicorn_without_websockets, False),
    "h2corn-1": (h2corn, False),
    "h2corn-2": (h2corn, True),
}


@requirement("R-HTTP-02")
@pytest.mark.parametrize("server", SERVERS)
async def test_turn_on_other_servers(server: str) -> None:
    serve, http2 = SERVERS[server]
    app = accord.asgi(Echo, token=TOKEN)
    async with serve(app) as address, http_peer(address, http2=http2) as peer:
        await take_turn(peer)


async def take_turn(peer: HttpPeer) -> None:
    await peer.initialize()
    async with peer.stream() as common:
        session = await peer.new_session(common)
        async with peer.stream(session) as own:
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "x" * 10_000}]}
            turn = await peer.request("session/prompt", prompt, session)
            assert (await own.response_to(turn))["result"]["stopReason"] == "end_turn"
        refused = await peer.post("{}", Content_Type="text/plain")
        assert refused.status_code == 415
        assert await peer.delete() == 202
        await common.end()
