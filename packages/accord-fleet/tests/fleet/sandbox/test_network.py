"""The ways out of a sandbox: the model gateway, and the proxy for allowed hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accord_fleet.gateway.gateway import open_gateway
from accord_fleet.gateway.limiter import LocalLimiter
from accord_fleet.gateway.providers import KNOWN_PROVIDERS, Provider
from accord_fleet.sandbox.bubblewrap import Exits, serve_allow_list
from accord_fleet.sandbox.settings import HostRule, SandboxError, SandboxSettings
from coder.models.provider import Says, serve_provider
from fleet.sandboxes import NEEDS_SANDBOX, run_inside

KEY = "sk-real-key-of-the-fleet"


@asynccontextmanager
async def web_server() -> AsyncGenerator[int]:
    """Serve the first line of each request; yield the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = head.split(b"\r\n")[0] + (b" proxy" if b"proxy-" in head.lower() else b"")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(body))
        writer.write(b"Connection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@NEEDS_SANDBOX
async def test_agent_without_a_network_reaches_its_model_through_the_gateway(
    tmp_path: Path,
) -> None:
    async with serve_provider(Says("Hello")) as fake:
        env = KNOWN_PROVIDERS["anthropic"].env
        provider = Provider(name="p", api="anthropic", base_url=fake.root, key="K", env=env)
        async with (
            open_gateway([provider], LocalLimiter({}), environ={"K": KEY}) as gateway,
            gateway.open("p") as access,
        ):
            variables = {name: value for name, value in access.env.items() if value is not None}
            said = await asyncio.to_thread(
                run_inside,
                tmp_path,
                """
                import os, urllib.request
                url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
                headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"]}
                request = urllib.request.Request(url, b"{}", headers)
                body = urllib.request.urlopen(request, timeout=20).read().decode()
                print("message_stop" in body)
                for name in os.listdir("/proc"):
                    if name.isdigit():
                        for file in ("environ", "cmdline"):
                            print(open(f"/proc/{name}/{file}").read())
                """,
                SandboxSettings(mode="models"),
                exits=Exits(gateway=gateway.socket, gateway_port=gateway.port),
                env=variables,
            )
            assert said.startswith("True\n")
            assert KEY not in said
            assert access.token in said
            assert fake.requests[0].headers["x-api-key"] == KEY
            assert access.usage().total_tokens == 120


@NEEDS_SANDBOX
async def test_agent_reaches_allowed_hosts_only(tmp_path: Path) -> None:
    path = tmp_path / "proxy.sock"
    async with web_server() as port, web_server() as other:
        hosts = (f"localhost:{port}",)
        async with serve_allow_list(hosts, path):
            said = await asyncio.to_thread(
                run_inside,
                tmp_path,
                f"""
                import http.client, os, urllib.error, urllib.request
                del os.environ["NO_PROXY"], os.environ["no_proxy"]
                proxied = urllib.request.build_opener()
                print(proxied.open("http://localhost:{port}/a?b", timeout=20).read().decode())
                for url in ("http://localhost:{other}/", "http://127.0.0.1:{port}/",
                            "https://localhost:{other}/", "http://other.example/"):
                    try:
                        proxied.open(url, timeout=20)
                        print("REACHED", url)
                    except OSError as error:
                        print(str(error)[:50])
                tunnel = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
                tunnel.set_tunnel("localhost", {port})
                tunnel.request("GET", "/tunnelled")
                print(tunnel.getresponse().read().decode())
                """,
                SandboxSettings(mode="models", allow_hosts=hosts),
                exits=Exits(proxy=str(path)),
            )
    lines = said.splitlines()
    assert lines[0] == "GET /a?b HTTP/1.1"
    assert lines[1] == lines[2] == lines[4] == "HTTP Error 403: Forbidden"
    assert "403" in lines[3]
    assert lines[5] == "GET /tunnelled HTTP/1.1"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("CONNECT localhost:1 HTTP/1.1", b"502"),
        ("GET /path HTTP/1.1", b"400"),
        ("GET https://localhost/ HTTP/1.1", b"400"),
        ("CONNECT other:443 HTTP/1.1", b"403"),
        ("nonsense", b""),
        ("CONNECT localhost:99999 HTTP/1.1", b""),
    ],
)
async def test_proxy_answers_what_it_does_not_do(tmp_path: Path, head: str, status: bytes) -> None:
    path = tmp_path / "p.sock"
    async with serve_allow_list(["localhost:1"], path):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(f"{head}\r\n\r\n".encode())
        assert status in (await reader.read())[:12]
        writer.close()
        await writer.wait_closed()


def test_hosts_are_matched_by_name_and_port() -> None:
    wild = HostRule.parse("*.Example.com")
    assert wild.allows("api.example.com", 443)
    assert wild.allows("api.example.com.", 443)
    assert not wild.allows("example.com", 443)
    assert not wild.allows("badexample.com", 443)
    assert not wild.allows("api.example.com", 80)
    assert HostRule.parse("example.com:80").allows("EXAMPLE.com", 80)


@pytest.mark.parametrize("text", ["", "*", "*.", "a/b", "http://a", "a:b", "a:0", "a*b", "u@a"])
def test_host_that_is_not_one_is_refused(text: str) -> None:
    with pytest.raises(SandboxError, match="Expected a host to allow"):
        HostRule.parse(text)
