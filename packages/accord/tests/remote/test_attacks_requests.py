"""Attacks on the login, and from web pages, over real sockets (T1 to T8, T21, T22)."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

import accord
from accord import Agent
from remote.attackers import LOGIN, TOKEN, Recording, http, raw, serving, status_of
from requirement import requirement

INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}},
    }
)
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
WAYS = ["websocket", "POST", "GET", "DELETE"]


def request(
    way: str, *, host: str = "Host: 127.0.0.1\r\n", headers: str = LOGIN, path: str = "/acp"
) -> bytes:
    """Return a request of one kind; each is refused or served by its headers."""
    match way:
        case "websocket":
            return f"GET {path} HTTP/1.1\r\n{host}{UPGRADE}{headers}\r\n".encode("latin-1")
        case "POST":
            length = f"Content-Length: {len(INITIALIZE)}\r\nContent-Type: application/json\r\n"
            body = INITIALIZE
        case _:
            length = "Accept: text/event-stream\r\nAcp-Connection-Id: unknown\r\n"
            body = ""
    head = f"{way} {path} HTTP/1.1\r\n{host}Connection: close\r\n{length}{headers}\r\n"
    return f"{head}{body}".encode("latin-1")


SERVED = {"websocket": 101, "POST": 200, "GET": 404, "DELETE": 404}


async def status(address: str, way: str, **parts: Any) -> int:
    """Return the status; leave without reading an open WebSocket connection to its end."""
    port = address.rpartition(":")[2]
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        try:
            writer.write(request(way, **parts))
            return status_of(await reader.readline())
        finally:
            writer.close()
            await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])


class Counting(Recording):
    """Counts how often an agent was made."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Counting.made += 1


FOREIGN_HOSTS = [
    "Host: evil.example\r\n",
    "Host: evil.example:{port}\r\n",
    "Host: 127.0.0.1.evil.example\r\n",
    "Host: localhost.evil.example\r\n",
    "Host: evil.example@127.0.0.1\r\n",
    "Host: 127.0.0.1@evil.example\r\n",
    "Host: 127.0.0.1, evil.example\r\n",
    "Host: 10.0.0.1\r\n",
    "Host: 0.0.0.0\r\n",
    "Host: [::ffff:10.0.0.1]\r\n",
    "Host: \r\n",
    "X-Forwarded-Host: localhost\r\nHost: evil.example\r\n",
    "Forwarded: host=localhost\r\nHost: evil.example\r\n",
]


@requirement("R-SEC-02")
async def test_rebound_name_reaches_nothing() -> None:
    """T1: a web page makes its own name an address of this machine."""
    async with serving(Counting) as address:
        for way in WAYS:
            for host in FOREIGN_HOSTS:
                port = address.rpartition(":")[2]
                before = Counting.made
                assert await status(address, way, host=host.format(port=port)) == 421, host
                assert Counting.made == before, host


@requirement("R-SEC-02")
async def test_missing_or_second_host_is_refused() -> None:
    async with serving(Counting) as address:
        for host in ("", "Host: localhost\r\nHost: evil.example\r\n"):
            for way in WAYS:
                assert await status(address, way, host=host) in (400, 421), host


LISTED_NAMES = [
    ("localhost", True),
    ("LOCALHOST:1", True),
    ("[::1]:80", True),
    ("Build-7.Example", True),
    ("build-7.example:1234", True),
    ("other.example:8443", True),
    ("other.example", False),
    ("other.example:8444", False),
]


@requirement("R-SEC-02")
async def test_listed_names_are_served() -> None:
    hosts = ("build-7.example", "other.example:8443")
    async with serving(Recording, hosts=hosts) as address:
        for host, served in LISTED_NAMES:
            for way in WAYS:
                expected = SERVED[way] if served else 421
                assert await status(address, way, host=f"Host: {host}\r\n") == expected, (
                    host,
                    served,
                )


FOREIGN_ORIGINS = [
    "http://evil.example",
    "http://evil.example:{port}",
    "null",
    "http://127.0.0.1",
    "http://localhost:1",
    "http://localhost.evil.example:{port}",
    "http://localhost:{port}.evil.example",
    "http://localhost:{port}@evil.example",
    "http://[",
    "http://localhost:99999",
    "http://localhost:x",
    "file://",
    "about:blank",
    "",
    "http://localhost:{port}\r\nOrigin: http://evil.example",
]


@requirement("R-SEC-03", "R-WS-05")
async def test_foreign_page_reaches_nothing() -> None:
    """T2: a browser adds cookies and sends WebSocket handshakes from any page."""
    async with serving(Counting) as address:
        for way in WAYS:
            for origin in FOREIGN_ORIGINS:
                port = address.rpartition(":")[2]
                before = Counting.made
                headers = f"{LOGIN}Origin: {origin.format(port=port)}\r\n"
                assert await status(address, way, headers=headers) == 403, origin
                assert Counting.made == before, origin


@requirement("R-SEC-03")
async def test_own_and_listed_pages_still_need_the_token() -> None:
    async with serving(Recording, origins=("https://app.example",)) as address:
        for origin in ("http://localhost:{port}", "https://app.example"):
            port = address.rpartition(":")[2]
            line = f"Origin: {origin.format(port=port)}\r\n"
            for way in WAYS:
                assert await status(address, way, headers=LOGIN + line) == SERVED[way], origin
                cookie = f"Cookie: token={TOKEN}\r\n"
                assert await status(address, way, headers=line + cookie) == 401, origin


WRONG_LOGINS = [
    "",
    "Authorization: \r\n",
    "Authorization: Bearer\r\n",
    "Authorization: Bearer \r\n",
    f"Authorization: {TOKEN}\r\n",
    f"Authorization: Basic {TOKEN}\r\n",
    f"Authorization: Bearer {TOKEN[:-1]}\r\n",
    f"Authorization: Bearer {TOKEN}x\r\n",
    f"Authorization: Bearer {TOKEN.upper()}\r\n",
    "Authorization: Bearer \xff\xfe\r\n",
    f"Authorization: Bearer wrong\r\n{LOGIN}",
    f"{LOGIN}{LOGIN}",
    f"X-Forwarded-Authorization: Bearer {TOKEN}\r\n",
    f"Proxy-Authorization: Bearer {TOKEN}\r\n",
    "X-Forwarded-For: 127.0.0.1\r\nX-Real-Ip: 127.0.0.1\r\nX-Remote-User: root\r\n",
]


@requirement("R-SEC-04")
async def test_wrong_login_reaches_nothing() -> None:
    """T4: another user of this machine connects."""
    async with serving(Counting) as address:
        for way in WAYS:
            for headers in WRONG_LOGINS:
                before = Counting.made
                assert await status(address, way, headers=headers) == 401, headers
                assert Counting.made == before, headers


@requirement("R-SEC-10")
async def test_token_in_the_query_is_ignored_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """T5: what is in a URL ends in logs."""
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "accord")
    async with serving(Recording) as address:
        for way in WAYS:
            path = f"/acp?token={TOKEN.replace(' ', '+')}&access_token={TOKEN.replace(' ', '%20')}"
            assert await status(address, way, path=path, headers="") == 401
            assert await status(address, way, path=path) == SERVED[way]
    assert "connected by" in caplog.text
    assert "token=" not in caplog.text


async def test_login_is_needed_before_anything_else() -> None:
    """A path and a connection are known only to those who have logged in."""
    async with serving(Recording) as address:
        answers = {
            await status(address, way, headers=f"Acp-Connection-Id: {name}\r\n")
            for way in ("GET", "DELETE")
            for name in ("x", "0" * 32)
        }
        assert answers == {401}


@requirement("R-SEC-04")
async def test_refusal_does_not_wait_for_the_body() -> None:
    async with serving(Recording) as address:
        port = address.rpartition(":")[2]
        head = (
            f"POST /acp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            "Content-Length: 1000000\r\n\r\n{"
        )
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
            writer.write(head.encode())
            assert status_of(await reader.readline()) == 401
            writer.close()
            await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])


@requirement("R-SEC-04")
async def test_time_to_compare_does_not_depend_on_the_token() -> None:
    """T6: the comparison takes the same time wherever the first difference is."""
    from accord.remote.access import Access

    access = Access(token=TOKEN)

    def scope(token: str) -> Any:
        return {
            "path": "/acp",
            "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {token}".encode())],
        }

    async def shortest(token: str) -> float:
        found: list[float] = []
        for _ in range(300):
            began = time.perf_counter()
            await access.check(scope(token))
            found.append(time.perf_counter() - began)
        return min(found)

    first = await shortest("x" + TOKEN[1:])
    last = await shortest(TOKEN[:-1] + "x")
    assert 0.5 < first / last < 2


# The hook `authenticate`.


def hook(answer: Any) -> Any:
    async def authenticate(request: accord.RemoteRequest) -> accord.Principal | None:
        found = answer(request)
        return await found if asyncio.iscoroutine(found) else found

    return authenticate


SECRET = "Bearer a-secret-of-the-client"


def fails(request: accord.RemoteRequest) -> Any:
    raise KeyError(request.headers["authorization"][0])


@requirement("R-SEC-04")
@pytest.mark.parametrize("answer", [fails, lambda request: "ada", lambda request: True])
async def test_hook_that_fails_lets_nobody_in(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """T22: the client gets no detail, the log has the place and no secret."""
    async with serving(Counting, token=None, authenticate=hook(answer)) as address:
        for way in WAYS:
            before = Counting.made
            sent = request(way, headers=f"Authorization: {SECRET}\r\n")
            if way == "websocket":
                assert await status(address, way, headers=f"Authorization: {SECRET}\r\n") == 500, (
                    way
                )
            else:
                refused = await http(address, sent)
                assert status_of(refused) == 500, way
                assert b"KeyError" not in refused, way
                assert b"ada" not in refused, way
                assert b"Traceback" not in refused, way
            assert Counting.made == before, way
    assert "authenticate failed: " in caplog.text
    assert "test_attacks_requests.py" in caplog.text or answer is not fails
    assert "a-secret" not in caplog.text


@requirement("R-SEC-04")
async def test_hook_has_bounded_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("accord.remote.access.AUTHENTICATE_S", 0.05)
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    slow = hook(lambda request: wait())
    async with serving(Counting, token=None, authenticate=slow) as address:
        for way in WAYS:
            assert await status(address, way) == 503
    assert ended == ["cancelled"] * len(WAYS)
    assert "authenticate took more than" in caplog.text


@requirement("R-SEC-04")
async def test_token_that_expires_is_refused_from_then_on() -> None:
    now = 1000.0
    valid_until = {f"Bearer {TOKEN}": 1060.0, "Bearer of-bob": 900.0}

    def known(request: accord.RemoteRequest) -> accord.Principal | None:
        given = request.headers.get("authorization", [""])[0]
        return accord.Principal("ada") if valid_until.get(given, 0.0) > now else None

    async with serving(Recording, token=None, authenticate=known) as address:
        async with raw(address) as client:
            await client.initialize()
            now += 100
            for way in WAYS:
                assert await status(address, way) == 401
            # The open connection stays: an agent or a proxy may close it.
            assert "result" in await client.request("session/new", cwd="/", mcpServers=[])
        for way in WAYS:
            assert await status(address, way, headers="Authorization: Bearer of-bob\r\n") == 401


@requirement("R-SEC-10")
async def test_name_of_a_principal_does_not_write_lines_into_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    named = hook(lambda request: accord.Principal("ada\n= forged line\x1b[2J"))
    async with serving(Recording, token=None, authenticate=named) as address:
        async with raw(address) as client:
            await client.initialize()
        assert await status(address, "POST") == 200
    lines = [record.getMessage() for record in caplog.records]
    assert any("forged" in line for line in lines)
    assert not any("\n" in line or "\x1b" in line for line in lines)


@requirement("R-SEC-11")
async def test_forwarded_headers_count_for_nothing() -> None:
    seen: list[accord.RemoteRequest] = []

    def record(request: accord.RemoteRequest) -> accord.Principal:
        seen.append(request)
        return accord.Principal("ada")

    forged = (
        "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n"
        "X-Forwarded-Host: build-7.example\r\nForwarded: for=203.0.113.9;proto=https\r\n"
    )
    async with serving(Recording, token=None, authenticate=record) as address:
        for way in WAYS:
            assert await status(address, way, headers=forged) == SERVED[way]
    assert {(request.client, request.secure) for request in seen} == {("127.0.0.1", False)}


async def test_refusals_say_nothing_about_the_agent(tmp_path: Path) -> None:
    """T22: texts of refusals are fixed."""

    class Broken(Agent):
        def __init__(self) -> None:
            raise OSError(f"a secret in {tmp_path}")

    async with serving(Broken) as address:
        for way, changed in (
            ("POST", {"path": "/acp/../etc"}),
            ("POST", {"headers": ""}),
            ("POST", {}),
            ("GET", {}),
            ("PUT", {}),
        ):
            answer = (await http(address, request(way, **changed))).decode()
            assert status_of(answer.encode()) >= 400
            for secret in ("secret", str(tmp_path), "Traceback", "OSError", "Broken"):
                assert secret not in answer
        with pytest.raises(InvalidStatus):
            async with raw(address, "wrong"):
                pass
