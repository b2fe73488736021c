"""The versions of HTTP, and the ASGI servers, over which agents are served."""

from __future__ import annotations

import asyncio
import importlib
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from h2.connection import H2Connection
from h2.events import RemoteSettingsChanged, ResponseReceived

import accord
from accord import Agent, Turn
from accord.remote.asgi import RemoteApp
from remote.http_peer import LIMIT_S, TOKEN, HttpPeer, http_peer
from remote.servers import served, uvicorn
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


@requirement("R-HTTP-03")
async def test_version_of_http_by_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    make = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    await run(program("openssl"), *make.split(), *names, *files)
    app = accord.asgi(Echo, token=TOKEN)
    async with served(app, tls_cert=certificate, tls_key=key) as address:
        trust = ("--cacert", str(certificate))
        for option, version in (("--http1.1", "1.1"), ("--http2", "2")):
            found = await curl(f"https://{address}/health", option, *trust)
            assert found == (version, "200")
        url = f"https://{address}/acp"
        async with accord.connect(url, token=TOKEN, ca_file=str(certificate)) as agent:
            session = await agent.new_session("/")
            async with session.prompt("by TLS") as turn:
                await turn.wait()
            assert turn.text == "by TLS"


@pytest.mark.slow
@requirement("R-HTTP-39")
async def test_http2_connection_has_as_many_streams_as_are_advertised() -> None:
    """By default, hypercorn ends a connection at its 1,000th stream, or after 1,000 requests."""
    app = accord.asgi(Echo, token=TOKEN)
    async with served(app) as address:
        host, _, port = address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        http = H2Connection()
        http.initiate_connection()
        most: int | None = None
        answered: dict[int, str] = {}

        async def exchange(is_over: Callable[[], bool]) -> None:
            nonlocal most
            writer.write(http.data_to_send())
            while not is_over():
                data = await reader.read(65536)
                assert data, "the server has ended the connection"
                for event in http.receive_data(data):
                    if isinstance(event, RemoteSettingsChanged):
                        most = http.remote_settings.max_concurrent_streams
                    elif isinstance(event, ResponseReceived):
                        answered[event.stream_id] = dict(event.headers)[b":status"].decode()
                writer.write(http.data_to_send())

        async with asyncio.timeout(2 * LIMIT_S):
            await exchange(lambda: most is not None)
            assert most is not None
            assert most >= 1024
            fields = {":method": "POST", ":scheme": "http", ":authority": address, ":path": "/acp"}
            login = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
            streams = [1 + 2 * number for number in range(most)]
            for stream in streams:
                http.send_headers(stream, list({**fields, **login}.items()))
            first, *others = streams
            for stream in others:
                http.send_data(stream, b"{}", end_stream=True)
            await exchange(lambda: len(answered) == len(others))
            # All of them have ended, and the first one continues.
            http.send_data(first, b"{}", end_stream=True)
            await exchange(lambda: first in answered)
        assert answered == dict.fromkeys(streams, "400")
        writer.close()
        await writer.wait_closed()


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
