"""Cancellation of turns and requests, also of those that have ended or never existed."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import NotJson, is_object, loads
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenario_client import UNKNOWN_SESSION, ScenarioClient, SentPrompt
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.frame import Frame

# How long a turn works before it is cancelled, in each try.
_WORKS_S = (0.0, 0.5, 1.0)
_TOO_SHORT = "the turn ended before it could be cancelled"


@scenario(
    "cancellation/turn",
    "R-CANCEL-04",
    "R-CANCEL-05",
    "R-CANCEL-06",
    "R-CANCEL-07",
    "R-CANCEL-08",
    "R-SESS-21",
)
async def _turn(context: AgentContext) -> None:
    """A turn is cancelled; another one ends because its session is closed."""
    client = context.client
    await _cancelled(context)
    if not client.supports("close"):
        return
    session = await client.new_session()
    sent = await _working(client, session)
    call = client.connection.send_request("session/close", {"sessionId": session})
    for asked in client.pending_permissions(session):
        client.answer_cancelled(asked)
    if await context.expect_success(
        "R-SESS-21", client, call, why="closing a session during its turn"
    ):
        if context.version == 1:
            # Both are responses, and no rule defines their order.
            await client.wait_for_optional(
                lambda: sent.is_over, "end", within_s=context.settings.answer
            )
        ended = sent.is_over and is_object(call.result)
        context.judge(
            "R-SESS-21",
            ended,
            sent.request,
            call,
            expected="the end of the turn, and an object as the result",
            got="the response, and a turn that continues" if call.ok else describe_outcome(call),
        )


async def _cancelled(context: AgentContext) -> None:
    """Judge the end of a cancelled turn; try again if the messages may have crossed."""
    ends: list[SentPrompt] = []
    cancel: Frame | None = None
    for works_s in _WORKS_S:
        try:
            sent, cancel = await _cancel(context, works_s)
        except NotExercised:
            if not ends:
                raise
            return  # the turn is shorter
        late = not sent.is_over
        if late and not await _ends(context, sent, cancel):
            return
        if sent.stop_reason == "cancelled":
            return
        ends.append(sent)
        if late:
            break  # the messages did not cross
    failed = all(not one.request.ok or one.stop_reason == "error" for one in ends)
    rules = ("R-CANCEL-06", "R-CANCEL-08") if failed else ("R-CANCEL-05", "R-CANCEL-07")
    reasons = dict.fromkeys(one.stop_reason or describe_outcome(one.request) for one in ends)
    context.judge(
        rules[context.version - 1],
        False,
        cancel,
        *ends[-1].evidence,
        expected="the stop reason cancelled",
        got=f"{' and '.join(reasons)}, {_in_turns(len(ends))} working when cancelled",
    )


def _in_turns(number: int) -> str:
    return "in a turn that was" if number == 1 else f"in {number} turns that were"


async def _ends(context: AgentContext, sent: SentPrompt, cancel: Frame) -> bool:
    """Wait for a turn that continues after its cancel; judge a turn that does not end."""
    settings = context.settings
    ended = await context.client.wait_for_optional(
        lambda: sent.is_over, "end", within_s=settings.timeout
    )
    if not ended:
        context.judge(
            ("R-CANCEL-05", "R-CANCEL-07")[context.version - 1],
            False,
            sent.request,
            cancel,
            expected="the end of the turn, with the stop reason cancelled",
            got=f"no end, {settings.answer + settings.timeout:g} s after the cancel",
        )
    return ended


async def _cancel(context: AgentContext, works_s: float) -> tuple[SentPrompt, Frame]:
    """Cancel a turn after this time; return the turn and the frame of the cancel."""
    client = context.client
    session = await client.new_session()
    sent = await _working(client, session)
    if works_s and await client.wait_for_optional(lambda: sent.is_over, "end", within_s=works_s):
        raise NotExercised(_TOO_SHORT)
    cancel = client.cancel(session)
    ended = await client.wait_for_optional(
        lambda: sent.is_over, "end", within_s=context.settings.answer
    )
    context.judge(
        "R-CANCEL-04",
        ended,
        sent.request,
        expected=f"the end of the cancelled turn within {context.settings.answer:g} s",
        got="none",
    )
    return sent, cancel


@scenario("cancellation/no-turn", "R-CANCEL-12")
async def _nothing(context: AgentContext) -> None:
    """A session without a turn and an unknown session are cancelled."""
    client = context.client
    session = await client.new_session()
    began = len(client.connection.observer.state.frames)
    client.cancel(session)
    client.connection.send_notification("session/cancel", {"sessionId": UNKNOWN_SESSION})
    await client.connection.sync()
    answers = strays(client, began)
    sent = await client.run_turn(session, "text")
    context.judge(
        "R-CANCEL-12",
        not answers and sent.stop_reason != "cancelled",
        *answers,
        *sent.evidence,
        expected="no response, and a next turn that is not cancelled",
        got="a response" if answers else f"the stop reason {sent.stop_reason}",
    )


@scenario("cancellation/request", "R-REQCAN-13", versions=(1,))
async def _request(context: AgentContext) -> None:
    """A prompt is cancelled by `$/cancel_request` during its turn."""
    client = context.client
    session = await client.new_session()
    sent = await _working(client, session)
    client.connection.send_notification("$/cancel_request", {"requestId": sent.request.id})
    await client.wait_for_optional(lambda: sent.is_over, "end", within_s=context.settings.answer)
    if not sent.is_over:
        client.cancel(session)
        await sent.wait_for_end(within_s=context.settings.answer)
        raise NotExercised("the agent does not support `$/cancel_request`")
    context.judge(
        "R-REQCAN-13",
        sent.request.ok or sent.request.code == -32800,
        sent.request,
        expected="-32800, or the stop reason cancelled",
        got=describe_outcome(sent.request),
    )


@scenario("cancellation/late", "R-REQCAN-06")
async def _late(context: AgentContext) -> None:
    """Requests that are already answered, or never existed, are cancelled."""
    client = context.client
    await client.new_session()
    began = len(client.connection.observer.state.frames)
    unknown: tuple[Any, ...] = (1, 999_999, "accord-unknown")
    for ident in unknown:
        client.connection.send_notification("$/cancel_request", {"requestId": ident})
    call = client.connection.send_request("session/new", client.setup_params())
    why = "a request after cancels of other requests"
    if await context.expect_success("R-REQCAN-06", client, call, why=why):
        answers = strays(client, began)
        context.judge(
            "R-REQCAN-06",
            not answers,
            *answers,
            expected="no response to the cancel of a finished request",
            got="a response",
        )


async def _working(client: ScenarioClient, session: str) -> SentPrompt:
    """Return a turn in progress; raise `NotExercised` if it ends too soon."""
    sent = client.prompt_for(session, "long")
    if client.version == 2:
        await client.connection.wait_for_response(sent.request, within_s=client.settings.timeout)
    await client.wait_for_optional(lambda: bool(sent.updates()) or sent.is_over, "sign of work")
    await client.connection.sync()
    client.require_accepted(sent)
    if sent.is_over:
        raise NotExercised(_TOO_SHORT)
    return sent


def strays(client: ScenarioClient, began: int) -> list[Frame]:
    """Return the agent's responses without a request, from a frame on."""
    responses: list[Frame] = []
    for frame in client.connection.observer.state.frames[began:]:
        if frame.sender != "agent":
            continue
        try:
            value = loads(frame.text)
        except NotJson:
            continue
        if is_object(value) and "method" not in value and value.get("id") is None:
            responses.append(frame)
    return responses


SCENARIOS = (_turn, _nothing, _request, _late)
