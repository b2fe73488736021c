"""Malformed traffic: the agent responds with errors and keeps running."""

from __future__ import annotations

import json
from typing import Any

from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenario_client import ScenarioClient
from accord_conformance.agent.scenarios.cancellation import strays
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import NotExercised, scenario

_LARGE_BYTES = 1024 * 1024


@scenario("malformed/frames", "R-ERR-03", "R-BATCH-10", isolated=True, media=("stdio", "websocket"))
async def _frames(context: AgentContext) -> None:
    """The client sends frames that are not JSON, not a message, or a batch."""
    client = await context.connect_initialized()
    batch = [{"jsonrpc": "2.0", "id": 91, "method": "_accord/in-batch"}]
    for rule, frame in (
        ("R-ERR-03", b'{"jsonrpc": "2.0", "method": '),
        ("R-ERR-03", b'{"jsonrpc": "2.0", "accord": true}'),
        ("R-ERR-03", b"4711"),
        ("R-BATCH-10", json.dumps(batch).encode()),
        ("R-BATCH-10", b"[]"),
    ):
        began = len(client.connection.observer.state.frames)
        client.connection.send(frame)

        def is_answered(began: int = began) -> bool:
            return bool(strays(client, began))

        try:
            await client.connection.wait_soon(is_answered, "response")
        except NoResponse as silence:
            context.judge(
                rule,
                False,
                client.connection.observer.state.frames[began],
                expected="an error with a null id",
                got=str(silence),
            )
            if client.connection.is_closed:
                raise


@scenario("malformed/ids", isolated=True)
async def _ids(context: AgentContext) -> None:
    """The client sends requests with invalid ids."""
    client = await context.connect_initialized()
    if context.version == 1:
        raise NotExercised("version 1 allows a null id")
    odd: tuple[Any, ...] = (None, 1.5, True, {"a": 1})
    for ident in odd:
        client.connection.send_message(id=ident, method="_accord/unknown", params={})
        await client.connection.sync()


@scenario("malformed/responses", "R-ERR-04", isolated=True)
async def _answers(context: AgentContext) -> None:
    """The client sends responses that match no request."""
    client = await context.connect_initialized()
    began = len(client.connection.observer.state.frames)
    error = {"code": -32603, "message": "Internal error"}
    sent = {
        b"4711": client.connection.send_message(id=4711, result={}),
        b'"accord"': client.connection.send_message(id="accord", error=error),
        b"4712": client.connection.send_message(id=4712),
    }
    await _expect_alive(context, "R-ERR-04", client, "a request after responses without a request")
    stray = strays(client, began)
    agent_frames = {
        ident: frame
        for frame in client.connection.observer.state.frames[began:]
        for ident in sent
        if frame.sender == "agent" and ident in frame.text
    }
    # A response without an id may be for any of them.
    provoking = sent.values() if stray else [sent[ident] for ident in agent_frames]
    context.judge(
        "R-ERR-04",
        not stray and not agent_frames,
        *provoking,
        *stray,
        *agent_frames.values(),
        expected="nothing: a response without a request is ignored",
        got="a response to it",
    )


# By HTTP, the transport itself refuses these messages.
@scenario("malformed/params", "R-ERR-05", isolated=True, media=("stdio", "websocket"))
async def _params(context: AgentContext) -> None:
    """The client sends requests and notifications with invalid params."""
    client = await context.connect_initialized()
    odd: tuple[Any, ...] = ([], "text", 5, {"sessionId": 5}, {"sessionId": None})
    for value in odd:
        client.connection.send_message(method="session/cancel", params=value)
        client.connection.send_message(method="$/cancel_request", params=value)
        call = client.connection.send_request("session/prompt", value)
        await context.expect_error("R-ERR-05", client, call, (), why=f"the params {value!r}")
    await _expect_alive(context, "R-ERR-05", client, "a request after malformed params")


@scenario("malformed/lines", "R-STDIO-11", isolated=True, media=("stdio",))
async def _lines(context: AgentContext) -> None:
    """The client sends lines that are blank, end in CR LF, are not UTF-8, or are very long."""
    client = await context.connect_initialized()
    rule = "R-STDIO-11"
    began = len(client.connection.observer.state.frames)
    for blank in (b"", b"   ", b"\t"):
        client.connection.send(blank)
    await _expect_alive(context, rule, client, "a request after blank lines")
    stray = strays(client, began)
    context.judge(rule, not stray, *stray, expected="no response to a blank line", got="a response")
    body = {"jsonrpc": "2.0", "method": "_accord/unknown"}
    for number, (why, text) in enumerate(
        (
            ("a line that ends in CR LF", json.dumps({**body, "id": 9001}).encode() + b"\r"),
            ("a long line", _long({**body, "id": 9002})),
        )
    ):
        client.connection.send(text)
        call = client.connection.observer.state.find_request("client", 9001 + number)
        assert call is not None, "just sent"
        if await context.expect_response(rule, client, call, f"a response to {why}"):
            context.judge(rule, True)
    client.connection.send(
        b'{"jsonrpc": "2.0", "method": "_accord/unknown", "params": {"a": "\xff"}}'
    )
    await _expect_alive(context, rule, client, "a request after a line that is not UTF-8")


def _long(body: dict[str, Any]) -> bytes:
    return json.dumps({**body, "params": {"text": "long " * (_LARGE_BYTES // 5)}}).encode()


async def _expect_alive(
    context: AgentContext, rule: str, client: ScenarioClient, what: str
) -> None:
    """Judge that the connection still works."""
    call = client.connection.send_request("_accord/unknown", {})
    if await context.expect_response(rule, client, call, f"a response to {what}"):
        context.judge(
            rule, call.response is not None, call, expected="", got=describe_outcome(call)
        )


SCENARIOS = (_frames, _ids, _answers, _params, _lines)
