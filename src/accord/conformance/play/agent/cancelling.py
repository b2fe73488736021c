"""Cancels: of turns, of requests, of what is over or never was."""

from __future__ import annotations

from typing import Any

from accord.conformance.frame import Frame
from accord.conformance.play.editor import Editor, Prompted
from accord.conformance.play.scenario import NotExercised, scenario
from accord.conformance.play.stage import Stage, outcome_of
from accord.jsontext import NotJson, is_object, loads

__all__ = ("SCENARIOS", "strays")


@scenario("cancelling/turn", "R-CANCEL-04", "R-SESS-21")
async def _turn(stage: Stage) -> None:
    """A turn is cancelled while it goes on; another is ended by closing its session."""
    editor = stage.editor
    session = await editor.new_session()
    prompted = await _working(editor, session)
    editor.cancel(session)
    ended = await editor.comes(lambda: prompted.over, "end", within_s=stage.settings.answer)
    stage.judge(
        "R-CANCEL-04",
        ended,
        prompted.call,
        expected=f"the end of a cancelled turn within {stage.settings.answer:g} s",
        got="none",
    )
    if not editor.offers("close"):
        return
    session = await editor.new_session()
    prompted = await _working(editor, session)
    call = editor.line.ask("session/close", {"sessionId": session})
    for asked in editor.asked(session):
        editor.cancelled(asked)
    if await stage.succeeds("R-SESS-21", editor, call, why="closing a session in its turn"):
        ended = prompted.over and is_object(call.result)
        stage.judge(
            "R-SESS-21",
            ended,
            prompted.call,
            call,
            expected="the end of the turn, then an object as the answer",
            got="the answer, and a turn that goes on" if call.ok else outcome_of(call),
        )


@scenario("cancelling/nothing", "R-CANCEL-12")
async def _nothing(stage: Stage) -> None:
    """A session without a turn is cancelled, and one that there is not."""
    editor = stage.editor
    session = await editor.new_session()
    began = len(editor.line.observer.talk.frames)
    editor.cancel(session)
    editor.line.note("session/cancel", {"sessionId": "accord-unknown-session"})
    await editor.line.settle()
    answers = strays(editor, began)
    prompted = await editor.turn(session, "text")
    stage.judge(
        "R-CANCEL-12",
        not answers and prompted.stop_reason != "cancelled",
        *answers,
        *prompted.shows,
        expected="no answer, and the next turn as if nothing had been cancelled",
        got="an answer" if answers else f"the stop reason {prompted.stop_reason}",
    )


@scenario("cancelling/request", "R-REQCAN-13", versions=(1,))
async def _request(stage: Stage) -> None:
    """A prompt is withdrawn while it is worked on."""
    editor = stage.editor
    session = await editor.new_session()
    prompted = await _working(editor, session)
    editor.line.note("$/cancel_request", {"requestId": prompted.call.id})
    await editor.comes(lambda: prompted.over, "end", within_s=stage.settings.answer)
    if not prompted.over:
        editor.cancel(session)
        await prompted.end(within_s=stage.settings.answer)
        raise NotExercised("the agent does not take `$/cancel_request`")
    stage.judge(
        "R-REQCAN-13",
        prompted.call.ok or prompted.call.code == -32800,
        prompted.call,
        expected="-32800, or the stop reason cancelled",
        got=outcome_of(prompted.call),
    )


@scenario("cancelling/late", "R-REQCAN-06")
async def _late(stage: Stage) -> None:
    """Requests are withdrawn that are answered already, or were never made."""
    editor = stage.editor
    await editor.new_session()
    began = len(editor.line.observer.talk.frames)
    unknown: tuple[Any, ...] = (1, 999_999, "accord-unknown")
    for ident in unknown:
        editor.line.note("$/cancel_request", {"requestId": ident})
    call = editor.line.ask("session/new", editor.setup())
    why = "a request after others were cancelled"
    if await stage.succeeds("R-REQCAN-06", editor, call, why=why):
        answers = strays(editor, began)
        stage.judge(
            "R-REQCAN-06",
            not answers,
            *answers,
            expected="no answer to a cancel of what is over",
            got="an answer",
        )


async def _working(editor: Editor, session: str) -> Prompted:
    """Return a turn that goes on; raise `NotExercised`."""
    prompted = editor.ask_for(session, "long")
    if editor.version == 2:
        await editor.line.reply(prompted.call, within_s=editor.settings.timeout)
    await editor.comes(lambda: bool(prompted.updates()) or prompted.over, "sign of work")
    await editor.line.settle()
    editor.taken(prompted)
    if prompted.over:
        raise NotExercised("the turn was over before it could be cancelled")
    return prompted


def strays(editor: Editor, began: int) -> list[Frame]:
    """Return the answers of the agent under no id, from some frame on."""
    found: list[Frame] = []
    for frame in editor.line.observer.talk.frames[began:]:
        if frame.sender != "agent":
            continue
        try:
            value = loads(frame.text)
        except NotJson:
            continue
        if is_object(value) and "method" not in value and value.get("id") is None:
            found.append(frame)
    return found


SCENARIOS = (_turn, _nothing, _request, _late)
