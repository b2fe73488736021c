"""Cancels: of turns, of requests, of what is over or never was."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import NotJson, is_object, loads
from accord_conformance.agent.client import ScenarioClient, SentPrompt
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.frame import Frame

__all__ = ("SCENARIOS", "strays")


# How long a turn is left to work before it is cancelled, try by try.
_WORKS_S = (0.0, 0.5, 1.0)
_TOO_SHORT = "the turn was over before it could be cancelled"


@scenario(
    "cancelling/turn",
    "R-CANCEL-04",
    "R-CANCEL-05",
    "R-CANCEL-06",
    "R-CANCEL-07",
    "R-CANCEL-08",
    "R-SESS-21",
)
async def _turn(stage: AgentContext) -> None:
    """A turn is cancelled while it goes on; another is ended by closing its session."""
    editor = stage.client
    await _cancelled(stage)
    if not editor.supports("close"):
        return
    session = await editor.new_session()
    prompted = await _working(editor, session)
    call = editor.connection.send_request("session/close", {"sessionId": session})
    for asked in editor.pending_permissions(session):
        editor.answer_cancelled(asked)
    if await stage.expect_success("R-SESS-21", editor, call, why="closing a session in its turn"):
        if stage.version == 1:
            # Both are answers, and no rule says which of them comes first.
            await editor.wait_for_optional(
                lambda: prompted.is_over, "end", within_s=stage.settings.answer
            )
        ended = prompted.is_over and is_object(call.result)
        stage.judge(
            "R-SESS-21",
            ended,
            prompted.request,
            call,
            expected="the end of the turn, and an object as the answer",
            got="the answer, and a turn that goes on" if call.ok else describe_outcome(call),
        )


async def _cancelled(stage: AgentContext) -> None:
    """Judge what a cancelled turn comes to; again where its end may have been on its way."""
    ends: list[SentPrompt] = []
    cancel: Frame | None = None
    for works_s in _WORKS_S:
        try:
            prompted, cancel = await _cancel(stage, works_s)
        except NotExercised:
            if not ends:
                raise
            return  # it is not that long
        late = not prompted.is_over
        if late and not await _ends(stage, prompted, cancel):
            return
        if prompted.stop_reason == "cancelled":
            return
        ends.append(prompted)
        if late:
            break  # nothing crossed there
    failed = all(not one.request.ok or one.stop_reason == "error" for one in ends)
    rules = ("R-CANCEL-06", "R-CANCEL-08") if failed else ("R-CANCEL-05", "R-CANCEL-07")
    reasons = dict.fromkeys(one.stop_reason or describe_outcome(one.request) for one in ends)
    stage.judge(
        rules[stage.version - 1],
        False,
        cancel,
        *ends[-1].evidence,
        expected="the stop reason cancelled",
        got=f"{' and '.join(reasons)}, {_in_turns(len(ends))} working when cancelled",
    )


def _in_turns(number: int) -> str:
    return "in a turn that was" if number == 1 else f"in {number} turns that were"


async def _ends(stage: AgentContext, prompted: SentPrompt, cancel: Frame) -> bool:
    """Wait for a turn that goes on after its cancel; tell when it has no end at all."""
    settings = stage.settings
    ended = await stage.client.wait_for_optional(
        lambda: prompted.is_over, "end", within_s=settings.timeout
    )
    if not ended:
        stage.judge(
            ("R-CANCEL-05", "R-CANCEL-07")[stage.version - 1],
            False,
            prompted.request,
            cancel,
            expected="the end of the turn, with the stop reason cancelled",
            got=f"no end, {settings.answer + settings.timeout:g} s after the cancel",
        )
    return ended


async def _cancel(stage: AgentContext, works_s: float) -> tuple[SentPrompt, Frame]:
    """Cancel a turn that has worked for so long; return it, and what cancelled it."""
    editor = stage.client
    session = await editor.new_session()
    prompted = await _working(editor, session)
    if works_s and await editor.wait_for_optional(
        lambda: prompted.is_over, "end", within_s=works_s
    ):
        raise NotExercised(_TOO_SHORT)
    cancel = editor.cancel(session)
    ended = await editor.wait_for_optional(
        lambda: prompted.is_over, "end", within_s=stage.settings.answer
    )
    stage.judge(
        "R-CANCEL-04",
        ended,
        prompted.request,
        expected=f"the end of a cancelled turn within {stage.settings.answer:g} s",
        got="none",
    )
    return prompted, cancel


@scenario("cancelling/nothing", "R-CANCEL-12")
async def _nothing(stage: AgentContext) -> None:
    """A session without a turn is cancelled, and one that there is not."""
    editor = stage.client
    session = await editor.new_session()
    began = len(editor.connection.observer.state.frames)
    editor.cancel(session)
    editor.connection.send_notification("session/cancel", {"sessionId": "accord-unknown-session"})
    await editor.connection.sync()
    answers = strays(editor, began)
    prompted = await editor.run_turn(session, "text")
    stage.judge(
        "R-CANCEL-12",
        not answers and prompted.stop_reason != "cancelled",
        *answers,
        *prompted.evidence,
        expected="no answer, and the next turn as if nothing had been cancelled",
        got="an answer" if answers else f"the stop reason {prompted.stop_reason}",
    )


@scenario("cancelling/request", "R-REQCAN-13", versions=(1,))
async def _request(stage: AgentContext) -> None:
    """A prompt is withdrawn while it is worked on."""
    editor = stage.client
    session = await editor.new_session()
    prompted = await _working(editor, session)
    editor.connection.send_notification("$/cancel_request", {"requestId": prompted.request.id})
    await editor.wait_for_optional(lambda: prompted.is_over, "end", within_s=stage.settings.answer)
    if not prompted.is_over:
        editor.cancel(session)
        await prompted.wait_for_end(within_s=stage.settings.answer)
        raise NotExercised("the agent does not take `$/cancel_request`")
    stage.judge(
        "R-REQCAN-13",
        prompted.request.ok or prompted.request.code == -32800,
        prompted.request,
        expected="-32800, or the stop reason cancelled",
        got=describe_outcome(prompted.request),
    )


@scenario("cancelling/late", "R-REQCAN-06")
async def _late(stage: AgentContext) -> None:
    """Requests are withdrawn that are answered already, or were never made."""
    editor = stage.client
    await editor.new_session()
    began = len(editor.connection.observer.state.frames)
    unknown: tuple[Any, ...] = (1, 999_999, "accord-unknown")
    for ident in unknown:
        editor.connection.send_notification("$/cancel_request", {"requestId": ident})
    call = editor.connection.send_request("session/new", editor.setup_params())
    why = "a request after others were cancelled"
    if await stage.expect_success("R-REQCAN-06", editor, call, why=why):
        answers = strays(editor, began)
        stage.judge(
            "R-REQCAN-06",
            not answers,
            *answers,
            expected="no answer to a cancel of what is over",
            got="an answer",
        )


async def _working(editor: ScenarioClient, session: str) -> SentPrompt:
    """Return a turn that goes on; raise `NotExercised`."""
    prompted = editor.prompt_for(session, "long")
    if editor.version == 2:
        await editor.connection.wait_for_response(
            prompted.request, within_s=editor.settings.timeout
        )
    await editor.wait_for_optional(
        lambda: bool(prompted.updates()) or prompted.is_over, "sign of work"
    )
    await editor.connection.sync()
    editor.require_accepted(prompted)
    if prompted.is_over:
        raise NotExercised(_TOO_SHORT)
    return prompted


def strays(editor: ScenarioClient, began: int) -> list[Frame]:
    """Return the answers of the agent under no id, from some frame on."""
    found: list[Frame] = []
    for frame in editor.connection.observer.state.frames[began:]:
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
