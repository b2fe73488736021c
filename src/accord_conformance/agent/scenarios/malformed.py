"""Traffic that is none: the agent says what is wrong, and goes on."""

from __future__ import annotations

import json
from typing import Any

from accord_conformance.agent.client import Editor
from accord_conformance.agent.context import Stage, outcome_of
from accord_conformance.agent.scenarios.cancellation import strays
from accord_conformance.harness.raw_connection import Silence
from accord_conformance.harness.scenario import NotExercised, scenario

__all__ = ("SCENARIOS",)

_LARGE_BYTES = 1024 * 1024


@scenario("malformed/frames", "R-ERR-03", "R-BATCH-10", own=True)
async def _frames(stage: Stage) -> None:
    """Frames come that are no JSON, no message, or many."""
    editor = await stage.initialized()
    batch = [{"jsonrpc": "2.0", "id": 91, "method": "_accord/in-batch"}]
    for rule, frame in (
        ("R-ERR-03", b'{"jsonrpc": "2.0", "method": '),
        ("R-ERR-03", b'{"jsonrpc": "2.0", "accord": true}'),
        ("R-ERR-03", b"4711"),
        ("R-BATCH-10", json.dumps(batch).encode()),
        ("R-BATCH-10", b"[]"),
    ):
        began = len(editor.line.observer.talk.frames)
        editor.line.send(frame)

        def is_answered(began: int = began) -> bool:
            return bool(strays(editor, began))

        try:
            await editor.line.soon(is_answered, "answer")
        except Silence as silence:
            stage.judge(
                rule,
                False,
                editor.line.observer.talk.frames[began],
                expected="an error with a null id",
                got=str(silence),
            )
            if editor.line.hung_up:
                raise


@scenario("malformed/ids", own=True)
async def _ids(stage: Stage) -> None:
    """Requests come under ids that are none."""
    editor = await stage.initialized()
    if stage.version == 1:
        raise NotExercised("version 1 allows a null id")
    odd: tuple[Any, ...] = (None, 1.5, True, {"a": 1})
    for ident in odd:
        editor.line.message(id=ident, method="_accord/unknown", params={})
        await editor.line.settle()


@scenario("malformed/answers", "R-ERR-04", own=True)
async def _answers(stage: Stage) -> None:
    """Answers come to what was never asked."""
    editor = await stage.initialized()
    began = len(editor.line.observer.talk.frames)
    error = {"code": -32603, "message": "Internal error"}
    sent = {
        b"4711": editor.line.message(id=4711, result={}),
        b'"accord"': editor.line.message(id="accord", error=error),
        b"4712": editor.line.message(id=4712),
    }
    await _goes_on(stage, "R-ERR-04", editor, "a request after answers to nothing")
    stray = strays(editor, began)
    theirs = {
        ident: frame
        for frame in editor.line.observer.talk.frames[began:]
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


@scenario("malformed/params", "R-ERR-05", own=True)
async def _params(stage: Stage) -> None:
    """Params come that are none, to requests and to notifications."""
    editor = await stage.initialized()
    odd: tuple[Any, ...] = ([], "text", 5, {"sessionId": 5}, {"sessionId": None})
    for value in odd:
        editor.line.message(method="session/cancel", params=value)
        editor.line.message(method="$/cancel_request", params=value)
        call = editor.line.ask("session/prompt", value)
        await stage.refused("R-ERR-05", editor, call, (), why=f"the params {value!r}")
    await _goes_on(stage, "R-ERR-05", editor, "a request after malformed params")


@scenario("malformed/lines", "R-STDIO-11", own=True)
async def _lines(stage: Stage) -> None:
    """Lines are blank, end in CR, hold no UTF-8, and one is very long."""
    editor = await stage.initialized()
    rule = "R-STDIO-11"
    began = len(editor.line.observer.talk.frames)
    for blank in (b"", b"   ", b"\t"):
        editor.line.send(blank)
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
        editor.line.send(text)
        call = editor.line.observer.talk.find("client", 9001 + number)
        assert call is not None, "just sent"
        if await stage.answered(rule, editor, call, f"an answer to {why}"):
            stage.judge(rule, True)
    editor.line.send(b'{"jsonrpc": "2.0", "method": "_accord/unknown", "params": {"a": "\xff"}}')
    await _goes_on(stage, rule, editor, "a request after a line that is not UTF-8")


def _long(body: dict[str, Any]) -> bytes:
    return json.dumps({**body, "params": {"text": "long " * (_LARGE_BYTES // 5)}}).encode()


async def _goes_on(stage: Stage, rule: str, editor: Editor, what: str) -> None:
    """Judge that the connection goes on."""
    call = editor.line.ask("_accord/unknown", {})
    if await stage.answered(rule, editor, call, f"an answer to {what}"):
        stage.judge(rule, call.reply is not None, call, expected="", got=outcome_of(call))


SCENARIOS = (_frames, _ids, _answers, _params, _lines)
