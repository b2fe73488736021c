"""Remote clients name MCP servers only as the policy of the server permits (R-SEC-09)."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

import accord
from accord.errors import RequestError
from accord.remote.guarded_transport import FrameGuard, GuardedTransport, McpPolicy
from accord.testing import Recorder
from accord.transports.base import Frame
from accord.transports.memory import pair
from remote.attackers import Recording, raw, serving
from remote.http_peer import http_peer
from requirement import requirement

# Answers each line that is JSON with the methods of all lines so far.
ECHO = """
import json, sys
seen = []
for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if isinstance(message, dict) and "method" in message:
        seen.append(message["method"])
        print(json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": seen}), flush=True)
"""

STDIO = {"name": "shell", "command": "/bin/sh", "args": [], "env": []}
HTTP = "http:/" + "/"
HTTPS = "https:/" + "/"
PUBLIC = f"{HTTP}93.184.215.14/mcp"
PRIVATE = f"{HTTP}10.0.0.1"


def entry(url: str, kind: str = "http") -> dict[str, Any]:
    return {"type": kind, "name": "web", "url": url, "headers": []}


async def new_session(address: str, *servers: Any) -> Any:
    async with raw(address) as client:
        await client.initialize()
        return await client.request("session/new", cwd="/", mcpServers=list(servers))


SERVERS: list[tuple[Any, str | None]] = [
    (STDIO, "starts no commands"),
    ({**STDIO, "type": "stdio"}, "starts no commands"),
    ({**STDIO, "type": "http", "url": PUBLIC}, "starts no commands"),
    (entry(HTTP + "127.0.0.1:8000/"), "private"),
    (entry("http://localhost:8000/", "sse"), "private"),
    (entry(HTTP + "LOCALHOST./"), "private"),
    (entry(HTTP + "169.254.169.254/latest/meta-data"), "private"),
    (entry(HTTPS + "10.0.0.1/"), "private"),
    (entry(HTTP + "192.168.1.1"), "private"),
    (entry(HTTP + "100.64.0.1"), "private"),
    (entry(HTTP + "0.0.0.0"), "private"),
    (entry(HTTP + "0"), "private"),
    (entry(HTTP + "127.1"), "private"),
    (entry(HTTP + "2130706433"), "private"),
    (entry(HTTP + "0x7f000001"), "private"),
    (entry(HTTP + "0177.0.0.1"), "private"),
    (entry(HTTP + "224.0.0.1"), "private"),
    (entry(HTTP + "[::1]"), "private"),
    (entry(HTTP + "[::]"), "private"),
    (entry(HTTP + "[fe80::1]"), "private"),
    (entry(HTTP + "[fd00::1]"), "private"),
    (entry(HTTP + "[::ffff:127.0.0.1]"), "private"),
    (entry(HTTP + "[::ffff:a9fe:a9fe]"), "private"),
    (entry(HTTP + "[64:ff9b::7f00:1]"), "private"),
    (entry(HTTP + "[2002:7f00:1::]"), "private"),
    (entry(HTTP + "user:word@127.0.0.1"), "private"),
    (entry(HTTP + "93.184.215.14@127.0.0.1"), "private"),
    (entry(HTTP + "93.184.215.14\\@127.0.0.1"), "not a plain"),
    (entry(HTTP + "93.184.215.14#@127.0.0.1"), None),
    (entry(HTTP + "a@b@127.0.0.1"), "not a plain"),
    (entry(HTTP + "①②⑦.⓪.⓪.①"), "not a plain"),
    (entry(HTTP + "127。0。0。1"), "not a plain"),
    (entry("http:/127.0.0.1"), "not a plain"),
    (entry("http:\\\\127.0.0.1"), "not a plain"),
    (entry(" http://127.0.0.1"), "not a plain"),
    (entry("ht\ntp://127.0.0.1"), "not a plain"),
    (entry(HTTP + "%31%32%37.0.0.1"), "not a plain"),
    (entry("file:///etc/passwd"), "not a plain"),
    (entry("ftp://93.184.215.14"), "not a plain"),
    (entry(HTTP + "93.184.215.14:99999"), "private or unknown"),
    (entry(HTTP + "[1.2.3.4]"), "not a plain"),
    (entry(HTTP + "name.invalid"), "private or unknown"),
    (entry(PUBLIC), None),
    (entry(HTTPS + "[2606:4700::1]:443/mcp?a=b#c"), None),
]


@requirement("R-SEC-09")
async def test_server_is_refused_by_its_name() -> None:
    agent = Recording()
    async with serving(agent, allow_mcp=()) as address, raw(address) as client:
        await client.initialize()
        for server, why in SERVERS:
            servers = [entry(PUBLIC) | {"name": "before"}, server]
            answer = await client.request("session/new", cwd="/", mcpServers=servers)
            if why is None:
                assert "result" in answer, (server, answer)
                continue
            assert answer["error"]["code"] == -32602, server
            assert why in answer["error"]["message"], server
            assert answer["error"]["data"] == {"mcpServer": server["name"]}
    allowed = [server["name"] for server, why in SERVERS if why is None]
    assert agent.servers == [name for each in allowed for name in ("before", each)]


@requirement("R-SEC-09")
@pytest.mark.parametrize("version", [1, 2])
async def test_all_requests_that_open_sessions_are_checked(version: int) -> None:
    async with serving(Recording, allow_mcp=()) as address, raw(address) as client:
        await client.initialize(version)
        for method in ("session/new", "session/load", "session/resume"):
            answer = await client.request(method, sessionId="s", cwd="/", mcpServers=[STDIO])
            assert answer["error"]["code"] == -32602, answer
            assert "'shell'" in answer["error"]["message"], method


DEFAULTS = [
    ({}, True),
    ({"hosts": ("127.0.0.1", "localhost:8765")}, True),
    ({"hosts": ("build-7.example",)}, False),
    ({"hosts": ("0.0.0.0",)}, False),
    ({"insecure": True, "token": None}, False),
    ({"authenticate": lambda request: accord.Principal("ada"), "token": None}, False),
    ({"hosts": ("build-7.example",), "allow_mcp": ("stdio",)}, True),
    ({"allow_mcp": ()}, False),
]


@requirement("R-SEC-09")
async def test_default_is_to_deny_if_others_are_served() -> None:
    for options, allowed in DEFAULTS:
        agent = Recording()
        async with serving(agent, **options) as address:
            answer = await new_session(address, STDIO)
        assert ("result" in answer) is allowed, answer
        assert agent.servers == (["shell"] if allowed else []), (options, allowed)


ALLOWED = [
    ("private", HTTP + "10.0.0.1/", True),
    ("10.0.0.1", HTTP + "10.0.0.1:81/", True),
    ("10.0.0.1:81", HTTP + "10.0.0.1:81/", True),
    ("10.0.0.1:81", HTTP + "10.0.0.1/", False),
    ("tools.invalid", HTTPS + "Tools.Invalid./mcp", True),
    ("tools.invalid:443", HTTPS + "tools.invalid/mcp", True),
    ("tools.invalid", HTTPS + "eviltools.invalid/", False),
    ("tools.invalid", HTTPS + "tools.invalid@10.0.0.1/", False),
    ("[fd00::1]", HTTP + "[fd00::1]/", True),
]


@requirement("R-SEC-09")
async def test_hosts_are_allowed_by_name() -> None:
    for allowed, url, passes in ALLOWED:
        async with serving(Recording, allow_mcp=(allowed,)) as address:
            answer = await new_session(address, entry(url))
            assert ("result" in answer) is passes, answer
            assert (await new_session(address, STDIO))["error"]["code"] == -32602, (allowed, url)


def test_setting_that_means_nothing_is_an_error() -> None:
    for name in ("", "http://host", "host/path", "host:port", "user@", "a b/"):
        with pytest.raises(ValueError, match="expected stdio, private or HOST"):
            McpPolicy.of([name])


@requirement("R-SEC-09")
async def test_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: Any, port: Any, *_: Any, **__: Any) -> Any:
        assert host == "rebinding.example"
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("93.184.215.14", "10.0.0.1")
        ]

    async with serving(Recording, allow_mcp=()) as address, raw(address) as client:
        await client.initialize()
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        url = HTTP + "rebinding.example"
        answer = await client.request("session/new", cwd="/", mcpServers=[entry(url)])
        assert answer["error"]["code"] == -32602


STDIO_TEXT = json.dumps(STDIO)


UNUSUAL = [
    f'{{"cwd":"/","mcpServers":[{STDIO_TEXT}],"mcpServers":[]}}',
    f'{{"cwd":"/","mcpServers":[],"mcpServers":[{STDIO_TEXT}]}}',
    f'{{"cwd":"/","mcp\\u0053ervers":[{STDIO_TEXT}]}}',
    f'{{"cwd":"/","MCPServers":[{STDIO_TEXT}]}}',
    f'{{"cwd":"/","mcp\u017fervers":[{STDIO_TEXT}]}}',
    f'{{"cwd":"/","_meta":{{"options":{{"mcpServers":{{"x":{STDIO_TEXT}}}}}}}}}',
    f'{{"cwd":"/","mcpServers":[{{"name":"x","url":"{PUBLIC}","url":"{PRIVATE}"}}]}}',
    f'{{"cwd":"/","mcpServers":[{{"name":"x","URL":"{PRIVATE}"}}]}}',
    f'{{"cwd":"/","mcpServers":[{STDIO_TEXT}],"big":1e999}}',
    f'{{"cwd":"/","mcpServers":[{STDIO_TEXT}],"deep":{"[" * 5000}{"]" * 5000}}}',
    f'{{"cwd":"/","mcpServers":[{STDIO_TEXT}],"not":NaN}}',
    f'{{"cwd":"/","mcpServers":[{STDIO_TEXT}],"cut":',
]


@requirement("R-SEC-09")
async def test_unusual_spelling_does_not_pass(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(ECHO)
    async with (
        serving([sys.executable, str(agent)], allow_mcp=()) as address,
        raw(address) as client,
    ):
        await client.request("initialize")
        for count, params in enumerate(UNUSUAL, 1):
            opening = f'"id":{-count},"method":"session/new","params":{params}'
            await client.send(f'{{"jsonrpc":"2.0",{opening}}}')
            code = (await client.receive())["error"]["code"]
            assert code in (-32600, -32602, -32700), params
            seen = (await client.request("after"))["result"]
            assert seen == ["initialize", *["after"] * count], params


@requirement("R-SEC-09")
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
async def test_message_with_line_ends_is_one_message_for_a_process(
    tmp_path: Path, end: str
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(ECHO)
    inner = json.dumps({"jsonrpc": "2.0", "id": 8, "method": "smuggled"})
    async with (
        serving([sys.executable, str(agent)], allow_mcp=()) as address,
        raw(address) as client,
    ):
        await client.request("initialize")
        await client.send(f'{{"a":{end}{inner}{end}}}')
        await client.send(f"[{end}{inner}{end}]")
        pretty = f'{{"jsonrpc":"2.0",{end}"id":9,"method":"pretty"}}'
        await client.send(pretty)
        assert (await client.response(9))["result"] == ["initialize", "pretty"]


@requirement("R-SEC-09")
async def test_refusal_reaches_clients_of_streamable_http() -> None:
    agent = Recording()
    async with serving(agent, allow_mcp=()) as address, http_peer(address) as peer:
        await peer.initialize()
        async with peer.stream() as common:
            refused = await peer.request("session/new", {"cwd": "/", "mcpServers": [STDIO]})
            assert (await common.response_to(refused))["error"]["code"] == -32602
            served = await peer.request("session/new", {"cwd": "/", "mcpServers": []})
            assert "result" in await common.response_to(served)
            assert await peer.delete() == 202
    assert not agent.servers


@requirement("R-SEC-09")
async def test_number_of_servers_is_limited() -> None:
    many = [entry(PUBLIC) | {"name": f"{number}"} for number in range(101)]
    async with serving(Recording, allow_mcp=()) as address:
        assert "result" in await new_session(address, *many[:100])
        assert (await new_session(address, *many))["error"]["code"] == -32602
        long = await new_session(address, entry(PUBLIC + "a" * 1_000_000 + "\n"))
        assert long["error"]["code"] == -32602


async def test_messages_keep_their_order_while_one_is_checked() -> None:
    agent = Recording()
    async with serving(agent, allow_mcp=()) as address, raw(address) as client:
        await client.initialize()
        new = {"cwd": "/", "mcpServers": [entry(PUBLIC.replace("93", "94")), STDIO]}
        request = {"jsonrpc": "2.0", "method": "session/new", "params": new}
        for number in range(100, 140):
            await client.send({**request, "id": number})
            listed = {"jsonrpc": "2.0", "id": -number, "method": "session/new"}
            await client.send({**listed, "params": {"cwd": "/", "mcpServers": []}})
        ids = [(await client.receive())["id"] for _ in range(80)]
        assert ids == [sign * number for number in range(100, 140) for sign in (1, -1)]


async def test_notification_that_names_servers_is_dropped(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(ECHO)
    async with (
        serving([sys.executable, str(agent)], allow_mcp=()) as address,
        raw(address) as client,
    ):
        await client.request("initialize")
        note = {"jsonrpc": "2.0", "method": "_x/set", "params": {"mcpServers": [STDIO]}}
        await client.send(note)
        assert (await client.request("after"))["result"] == ["initialize", "after"]


class Waits(FrameGuard):
    """Checks each frame for as long as the test likes."""

    def __init__(self) -> None:
        self.may_pass = asyncio.Event()

    def concerns(self, frame: Frame) -> bool:
        return True

    async def refusal(self, message: dict[str, Any]) -> RequestError | None:
        await self.may_pass.wait()
        return None


async def test_end_of_input_waits_for_the_frames_before_it() -> None:
    here, there = pair()
    guard, heard = Waits(), Recorder()
    guarded = GuardedTransport(there, [guard])
    await guarded.start(heard)
    frame = b'{"jsonrpc":"2.0","method":"_a"}'
    guarded.frames_received([frame])  # as the other transport does
    guarded.eof_received(None)
    await asyncio.sleep(0)
    assert not heard.ended
    guard.may_pass.set()
    await heard.until(lambda: heard.ended)
    assert heard.frames == [frame]
    await guarded.aclose()
    await here.aclose()
