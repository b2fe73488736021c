"""Attacks on the log: what clients send costs at most a line a minute for each address."""

from __future__ import annotations

import logging
from functools import cache

import pytest
from h2.errors import ErrorCodes
from hpack import Encoder

import accord
from accord.remote.access_log import REFUSED_LINES, RefusedRequests
from remote.attackers import http, status_of
from remote.test_attacks_sockets import connected, ends, frame, http2, is_served, serving
from requirement import requirement

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
STREAMS = range(1, 1201, 2)


def headers(stream: int, **changed: str | bytes) -> bytes:
    """Return a HEADERS frame; a pseudo-header that is empty is left out."""
    return frame(1, 4, stream, compressed(**changed))


@cache
def compressed(**changed: str | bytes) -> bytes:
    fields: dict[str, str | bytes] = {
        "method": "POST", "path": "/acp", "scheme": "http", "authority": "localhost", **changed
    }  # fmt: skip
    return Encoder().encode([(f":{name}", value) for name, value in fields.items() if value])


def loop(stream: int) -> bytes:
    """Return the fields of a stream that depends on itself."""
    return stream.to_bytes(4, "big") + b"\x10"


ATTACKS: dict[str, tuple[bytes, ErrorCodes]] = {
    "reset": (
        b"".join(headers(n) + frame(3, 0, n, b"\0\0\0\x08") for n in STREAMS),
        ErrorCodes.ENHANCE_YOUR_CALM,
    ),
    "priorities": (
        b"".join(frame(2, 0, n, b"\0\0\0\0\x10") for n in STREAMS),
        ErrorCodes.ENHANCE_YOUR_CALM,
    ),
    "priority of itself": (headers(1) + frame(2, 0, 1, loop(1)), ErrorCodes.PROTOCOL_ERROR),
    "method": (headers(1, method=b"P\xf6ST"), ErrorCodes.PROTOCOL_ERROR),
    "path": (headers(1, path=b"/\xff"), ErrorCodes.PROTOCOL_ERROR),
    "connect without a path": (
        headers(1, method="CONNECT", path="", scheme=""), ErrorCodes.PROTOCOL_ERROR,
    ),
    "window": (frame(8, 0, 0, b"\x7f\xff\xff\xff") * 2, ErrorCodes.FLOW_CONTROL_ERROR),
}  # fmt: skip


@requirement("R-SEC-08", "R-SEC-10")
@pytest.mark.parametrize("attack", ATTACKS)
async def test_connection_that_is_an_attack_ends_and_costs_one_line(
    attack: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord.remote.listener.HTTP2_STREAMS", 200)  # takes less time to exceed
    data, code = ATTACKS[attack]
    async with serving() as address:
        for _ in range(3):
            async with connected(address) as (reader, writer):
                writer.write(PREFACE + data)
                answer = await ends(reader)
            assert goaway(answer) == code
        await is_served(address)
    assert_few_lines(caplog)


def goaway(answer: bytes) -> int | None:
    """Return the error code of the GOAWAY frame."""
    while answer:
        length, kind = int.from_bytes(answer[:3], "big"), answer[3]
        payload, answer = answer[9 : 9 + length], answer[9 + length :]
        if kind == 7:
            return int.from_bytes(payload[4:8], "big")
    return None


def assert_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) <= 1, caplog.text
    for record in lines:
        assert record.exc_info is None
        assert "\n" not in record.getMessage()
        assert "127.0.0.1" in record.getMessage()


@requirement("R-HTTP-39")
async def test_body_that_arrives_after_a_refusal_leaves_the_connection_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as address, http2(address) as client:
        stream = client.connection.get_next_available_stream_id()
        client.connection.send_headers(stream, client.headers("POST", login=False))
        await client.flush()
        while not client.statuses:
            await client.read()
        client.connection.send_data(stream, b"late")
        client.connection.send_data(stream, b"end", end_stream=True)
        client.connection.ping(bytes(8))
        await client.flush()
        while client.acknowledged < 0 and not client.ended:
            await client.read()
        assert not client.ended
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@requirement("R-SEC-10")
@pytest.mark.parametrize("status", [401, 404, 421])
async def test_refused_requests_of_an_address_have_few_lines(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "accord")
    host = "evil.example" if status == 421 else "localhost"
    path = "/none" if status == 404 else "/acp"
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    async with serving() as address:
        for _ in range(2 * REFUSED_LINES):
            assert status_of(await http(address, request)) == status
    assert len(caplog.records) == REFUSED_LINES


def test_suppressed_lines_are_counted_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("accord.remote.access_log.time.monotonic", lambda: now)
    refused = RefusedRequests()
    assert [refused.suppressed("a", 401) for _ in range(REFUSED_LINES)] == [0] * REFUSED_LINES
    assert [refused.suppressed("a", 401) for _ in range(7)] == [None] * 7
    assert refused.suppressed("b", 401) == 0
    assert refused.suppressed("a", 403) == 0
    now = 60.0
    assert refused.suppressed("a", 401) == 7
    assert refused.suppressed("a", 401) == 0


def test_refused_requests_of_many_addresses_take_little_memory() -> None:
    refused = RefusedRequests()
    shown = [refused.suppressed(f"{number}", 401) for number in range(5000)]
    assert shown.count(0) < 1100


@requirement("R-SEC-10")
async def test_hook_that_fails_has_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    def fails(request: accord.RemoteRequest) -> accord.Principal | None:
        raise KeyError(request.method + "-secret")

    request = b"GET /acp HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with serving(token=None, authenticate=fails) as address:
        for _ in range(5):
            assert status_of(await http(address, request)) == 500
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1
    assert "GET-secret" not in caplog.text
