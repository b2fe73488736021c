"""Traffic that is none: the agent says what is wrong, and goes on."""

from __future__ import annotations

import json
from typing import Any

from accord_conformance.agent.client import ScenarioClient
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenarios.cancellation import strays
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import NotExercised, scenario

__all__ = ("SCENARIOS",)

_LARGE_BYTES = 1024 * 1024


@scenario("malformed/frames", "R-ERR-03", "R-BATCH-10", isolated=True)
async def _frames(stage: AgentContext) -> None:
    """Frames come that are no JSON, no message, or many."""
    editor = await stage.connect_initialized()
    batch = [{"jsonrpc": "2.0", "id": 91, "method": "_accord/in-batch"}]
    for rule, frame in (
        ("R-ERR-03", b'{"jsonrpc": "2.0", "method": '),
        ("R-ERR-03", b'{"jsonrpc": "2.0", "accord": true}'),
        ("R-ERR-03", b"4711"),
        ("R-BATCH-10", json.dumps(batch).encode()),
        ("R-BATCH-10", b"[]"),
    ):
        began = len(editor.connection.observer.state.frames)
        editor.connection.send(frame)

        def is_answered(began: int = began) -> bool:
            return bool(strays(editor, began))

        try:
            await editor.connection.wait_soon(is_answered, "answer")
        except NoResponse as silence:
            stage.judge(
                rule,
                False,
                editor.connection.observer.state.frames[began],
                expected="an error with a null id",
                got=str(silence),
            )
            if editor.connection.is_closed:
                raise


@scenario("malformed/ids", isolated=True)
async def _ids(stage: AgentContext) -> None:
    """Requests come under ids that are none."""
    editor = await stage.connect_initialized()
    if stage.version == 1:
        raise NotExercised("version 1 allows a null id")
    odd: tuple[Any, ...] = (None, 1.5, True, {"a": 1})
    for ident in odd:
        editor.connection.send_message(id=ident, method="_accord/unknown", params={})
        await editor.connection.sync()


@scenario("malformed/answers", "R-ERR-04", isolated=True)
async def _answers(stage: AgentContext) -> None:
    """Answers come to what was never asked."""
    editor = await stage.connect_initialized()
    began = len(editor.connection.observer.state.frames)
    error = {"code": -32603, "message": "Internal error"}
    sent = {
        b"4711": editor.connection.send_message(id=4711, result={}),
        b'"accord"': editor.connection.send_message(id="accord", error=error),
        b"4712": editor.connection.send_message(id=4712),
    }
    await _goes_on(stage, "R-ERR-04", editor, "a request after answers to nothing")
    stray = strays(editor, began)
    theirs = {
        ident: frame
        for frame in editor.connection.observer.state.frames[began:]
        for ident in sent
        if frame.sender == "agent" and ident in frame.text
    }
    # An answer under no id may be one to each of them.
    provoking = sent.values() if stray else [sent[ident] for ident in theirs]
    stage.judge(
        "R-ERR-04",
        not stray and not theirs,
        *provoking,
        *stray,
        *theirs.values(),
        expected="nothing: what has no method is an answer, and this one answers nothing",
        got="an answer to it",
    )


@scenario("malformed/params", "R-ERR-05", isolated=True)
async def _params(stage: AgentContext) -> None:
    """Params come that are none, to requests and to notifications."""
    editor = await stage.connect_initialized()
    odd: tuple[Any, ...] = ([], "text", 5, {"sessionId": 5}, {"sessionId": None})
    for value in odd:
        editor.connection.send_message(method="session/cancel", params=value)
        editor.connection.send_message(method="$/cancel_request", params=value)
        call = editor.connection.send_request("session/prompt", value)
        await stage.expect_error("R-ERR-05", editor, call, (), why=f"the params {value!r}")
    await _goes_on(stage, "R-ERR-05", editor, "a request after malformed params")


@scenario("malformed/lines", "R-STDIO-11", isolated=True)
async def _lines(stage: AgentContext) -> None:
    """Lines are blank, end in CR, hold no UTF-8, and one is very long."""
    editor = await stage.connect_initialized()
    rule = "R-STDIO-11"
    began = len(editor.connection.observer.state.frames)
    for blank in (b"", b"   ", b"\t"):
        editor.connection.send(blank)
    await _goes_on(stage, rule, editor, "a request after blank lines")
    stray = strays(editor, began)
    stage.judge(rule, not stray, *stray, expected="nothing, for a blank line", got="an answer")
    body = {"jsonrpc": "2.0", "method": "_accord/unknown"}
    for number, (why, text) in enumerate(
        (
            ("a line that ends in CR LF", json.dumps({**body, "id": 9001}).encode() + b"\r"),
            ("a long line", _long({**body, "id": 9002})),
        )
    ):
        editor.connection.send(text)
        call = editor.connection.observer.state.find_request("client", 9001 + number)
        assert call is not None, "just sent"
        if await stage.expect_response(rule, editor, call, f"an answer to {why}"):
            stage.judge(rule, True)
    editor.connection.send(
        b'{"jsonrpc": "2.0", "method": "_accord/unknown", "params": {"a": "\xff"}}'
    )
    await _goes_on(stage, rule, editor, "a request after a line that is not UTF-8")


def _long(body: dict[str, Any]) -> bytes:
    return json.dumps({**body, "params": {"text": "long " * (_LARGE_BYTES // 5)}}).encode()


async def _goes_on(stage: AgentContext, rule: str, editor: ScenarioClient, what: str) -> None:
    """Judge that the connection goes on."""
    call = editor.connection.send_request("_accord/unknown", {})
    if await stage.expect_response(rule, editor, call, f"an answer to {what}"):
        stage.judge(rule, call.response is not None, call, expected="", got=describe_outcome(call))


SCENARIOS = (_frames, _ids, _answers, _params, _lines)
