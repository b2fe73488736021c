"""nginx, HAProxy and Caddy in front of a server, with the configurations of the page."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

import accord
from accord import Agent, Turn
from postgres import require_program
from project import ROOT
from remote.attackers import TOKEN
from remote.servers import served
from remote.test_tls import Files
from requirement import requirement

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs/how-to/use-a-proxy.md"
HOST = "build-7.example"
LISTENS = {"nginx": "listen 443 ", "haproxy": "bind :443 ", "caddy": f"{HOST} {{"}


class Stepwise(Agent):
    """Says one word, and the next one once the client has received it."""

    received = asyncio.Event()

    async def prompt(self, turn: Turn) -> None:
        await turn.say("one")
        async with asyncio.timeout(20):
            await Stepwise.received.wait()
        await turn.say(" two")


def configuration(proxy: str, port: int, server: str, files: Files, page: Path) -> str:
    """Return the block of a page, with the addresses and files of a test."""
    (text,) = re.findall(rf"```{proxy}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    made = files.certificate(HOST)
    bundle = files.ca.with_name("build-7.pem")
    bundle.write_bytes(made["tls_cert"].read_bytes() + made["tls_key"].read_bytes())
    own_address = LISTENS[proxy].replace("443", f"127.0.0.1:{port}")
    if proxy == "haproxy":
        own_address = f"bind 127.0.0.1:{port} "
    elif proxy == "caddy":
        own_address = f"{HOST}:{port} {{\n\tbind 127.0.0.1"
    changes = {
        LISTENS[proxy]: own_address,
        "127.0.0.1:8765": server,
        "127.0.0.1:8766": server,
        "/etc/accord/chain.pem": str(made["tls_cert"]),
        "/etc/accord/key.pem": str(made["tls_key"]),
        "/etc/accord/build-7.pem": str(bundle),
    }
    for old, new in changes.items():
        text = text.replace(old, new)
    assert "443" not in re.sub(r"\d{5,}|/\S+", "", text)
    if proxy == "nginx":  # for users that are not root
        paths = "".join(
            f"{kind}_temp_path {kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi")
        )
        text = text.replace("http {", f"http {{ {paths} scgi_temp_path scgi;")
    return text


@asynccontextmanager
async def running(
    proxy: str, server: str, files: Files, page: Path = PAGE
) -> AsyncGenerator[int, None]:
    """Run a proxy in front of a server; give its port."""
    program = require_program(proxy)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = files.ca.parent
    config = folder / f"{proxy}.conf"
    config.write_text(configuration(proxy, port, server, files, page))
    arguments = {
        "nginx": ["-p", str(folder), "-e", "stderr", "-c", str(config), "-g", "daemon off;"],
        "haproxy": ["-db", "-f", str(config)],
        "caddy": ["run", "--adapter", "caddyfile", "--config", str(config)],
    }[proxy]
    log = folder / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            cwd=folder,
            env={"HOME": str(folder), "PATH": "/usr/sbin:/usr/bin:/bin"},
            stdout=output,
            stderr=output,
        )
    try:
        if not await listens(port, process):
            pytest.fail(log.read_text())
        yield port
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def listens(port: int, process: asyncio.subprocess.Process) -> bool:
    """Wait until a port accepts connections; return False if the process ends."""
    async with asyncio.timeout(20):
        while process.returncode is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=0.02)
                continue
            writer.close()
            await writer.wait_closed()
            return True
    return False


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the name of the server be an address of this machine."""
    real: Any = socket.getaddrinfo

    def resolve(host: Any, *more: Any, **named: Any) -> Any:
        ours = host in (HOST, HOST.encode())
        return real("127.0.0.1" if ours else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    Stepwise.received = asyncio.Event()


@requirement("R-HTTP-40", "R-WS-01")
@pytest.mark.parametrize("proxy", ["nginx", "haproxy", "caddy"])
async def test_turns_through_a_proxy(proxy: str, files: Files) -> None:
    app = accord.asgi(Stepwise, token=TOKEN, hosts=(HOST,))
    async with served(app) as server, running(proxy, server, files) as port:
        for scheme in ("wss", "https"):
            Stepwise.received.clear()
            await turn(f"{scheme}://{HOST}:{port}", files)
        await edges(port, files)


async def turn(url: str, files: Files) -> None:
    async with accord.connect(url, token=TOKEN, ca_file=files.ca) as agent:
        session = await agent.new_session("/")
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, accord.Text):
                    Stepwise.received.set()  # the proxy has not waited for the second word
        assert turn.text == "one two"


async def edges(port: int, files: Files) -> None:
    """Check what the proxy and the server refuse."""
    trusted = ssl.create_default_context(cafile=files.ca)
    url = f"https://{HOST}:{port}"
    login = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    async with httpx2.AsyncClient(http2=True, verify=trusted, trust_env=False) as client:
        assert (await client.get(f"{url}/health")).status_code == 404
        refused = await client.post(f"{url}/acp", content=b"{}")
        assert refused.status_code == 401
        foreign = await client.post(
            f"{url}/acp", content=b"{}", headers={**login, "Host": "evil.example"}
        )
        assert foreign.status_code not in (202, 400), foreign
        large = bytes(17 * 1024 * 1024)
        with suppress(httpx2.TransportError):  # some close the connection while we send
            answer = await client.post(f"{url}/acp", content=large, headers=login)
            assert answer.status_code in (413, 502)  # Caddy 2.6 says 502


@requirement("R-SEC-11")
async def test_forwarded_headers_of_a_proxy_are_not_used(files: Files) -> None:
    seen: list[accord.RemoteRequest] = []

    def authenticate(request: accord.RemoteRequest) -> accord.Principal:
        seen.append(request)
        return accord.Principal("ada")

    app = accord.asgi(Stepwise, authenticate=authenticate, hosts=(HOST,))
    async with served(app) as server, running("caddy", server, files) as port:
        trusted = ssl.create_default_context(cafile=files.ca)
        async with httpx2.AsyncClient(verify=trusted, trust_env=False) as client:
            await client.get(f"https://{HOST}:{port}/acp")
    (request,) = seen
    assert "x-forwarded-for" in request.headers
    assert (request.client, request.secure) == ("127.0.0.1", False)
