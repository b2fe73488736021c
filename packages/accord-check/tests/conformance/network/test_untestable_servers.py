"""Which HTTP servers cannot be tested, and which answer `initialize` wrongly."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from accord.errors import TransportError
from accord.transports.registry import RemoteOptions
from accord_conformance.agent.context import RemoteAgent, is_refusal
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.settings import Settings
from accord_conformance.network import Exchange
from accord_conformance.reports.report import RunResult, verdict
from conformance.agent.filtered_agent import broken
from remote.http_fake import INITIALIZE, Fake, fake, result, started
from requirement import requirement


async def check(url: str, *versions: int) -> RunResult:
    remote = RemoteAgent(url, RemoteOptions())
    settings = Settings(timeout=40, answer=40)
    run = AgentRun(lambda _: remote.connect(), [], settings, subject="bent", remote=remote)
    return await run.run(versions or (1, 2))


def with_status(status: int) -> Callable[[Exchange], Any]:
    async def refuse(exchange: Exchange) -> None:
        await exchange.respond(status, b"", {"Location": "/elsewhere"})

    return refuse


@pytest.mark.parametrize("status", [307, 401, 403, 404, 405, 421, 429, 501, 503])
async def test_server_that_refuses_this_client_is_not_judged(status: int) -> None:
    async with fake() as server:
        server.initialize = with_status(status)
        with pytest.raises(TransportError):
            await check(server.url)
        assert len(server.requests) == 1


async def test_server_that_cannot_be_reached_is_not_judged() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nothing listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(TransportError, match="Cannot connect to"):
            await check(url)


@pytest.mark.parametrize("status", [400, 415, 500])
async def test_server_that_fails_at_initialize_fails_in_each_version(status: int) -> None:
    async with fake() as server:
        server.initialize = with_status(status)
        checked = await check(server.url)
    assert checked.unsupported.keys() == {1, 2}
    for why in checked.unsupported.values():
        assert f"refused the connection with status {status}" in why
    assert verdict(checked).status == 1


@requirement("R-HTTP-05")
async def test_another_answer_to_initialize_breaks_the_rule() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.respond(200, b"<p>It works!", {"Content-Type": "text/html"})

    async with fake() as server:
        server.initialize = answer
        checked = await check(server.url, 1)
    [said] = broken(checked)["R-HTTP-05"]
    assert "the JSON-RPC response to `initialize`" in said
    assert "did not answer initialize" in checked.unsupported[1]
    assert verdict(checked).status == 1


async def test_server_that_is_gone_in_the_second_version_is_judged_for_the_first() -> None:
    async with fake() as server:

        async def fail_once(exchange: Exchange) -> None:
            server.initialize = with_status(503)
            await exchange.respond(500)

        server.initialize = fail_once
        checked = await check(server.url)
    assert "with status 500" in checked.unsupported[1]
    assert "with status 503" in checked.unsupported[2]


async def end_of(server: Fake, **settings: Any) -> Exception | None:
    """Return why the transport of the kit ends."""
    async with started(server.url, **settings) as (transport, heard):
        transport.write([INITIALIZE])
        await heard.until(lambda: heard.ended)
        return heard.ends[0]


async def test_answer_that_is_too_large_is_no_refusal() -> None:
    async def answer(exchange: Exchange) -> None:
        large = result(0, protocolVersion=1, padding="x" * 10_000)
        await exchange.respond(200, large, {"Content-Type": "application/json"})

    async with fake() as server:
        server.initialize = answer
        ended = await end_of(server, frame_bytes=5000)
    assert "exceeds 5000 bytes" in str(ended)
    assert not is_refusal(ended)


async def test_refused_stream_after_initialize_is_no_refusal() -> None:
    async with fake() as server:
        server.get = with_status(404)
        ended = await end_of(server)
    assert "The event stream of the connection was refused with status 404" in str(ended)
    assert not is_refusal(ended)
