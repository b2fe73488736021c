"""Scenarios for what the user says while a turn runs: the extension `_session/steering`."""

from __future__ import annotations

from typing import Any

from accord.types.steering import PROMPT_REQUIRED, STEERING, is_advertised, outcome_of
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import UNKNOWN_SESSION, ScenarioClient, text_block
from accord_conformance.agent.scenarios.services import open_permission
from accord_conformance.harness import NotExercised, scenario
from accord_conformance.traffic.message import Request, format_value

_LATE_S = 0.3
_WORK = ("agent_message_chunk", "agent_message", "agent_thought_chunk", "tool_call")


def _steerable(context: AgentContext) -> ScenarioClient:
    """Return the client; raise `NotExercised` if the agent does not advertise steering."""
    if not is_advertised(context.client.result.get("_meta")):
        raise NotExercised("the agent does not advertise steering")
    return context.client


def _say(client: ScenarioClient, session: str, *blocks: Any) -> Request:
    """Say something while a turn runs, or would run."""
    params = {"sessionId": session, "prompt": list(blocks), "_meta": PROMPT_REQUIRED}
    return client.connection.send_request(STEERING, params)


@scenario("steering/refused", "R-STEER-03")
async def _refused(context: AgentContext) -> None:
    """A message without content, and one for an unknown session."""
    client = _steerable(context)
    call = _say(client, await client.new_session())
    why = "a message without content"
    await context.expect_error("R-STEER-03", client, call, (-32602,), why=why)
    if context.medium == "http":
        return  # where requests name their session in a header
    call = _say(client, UNKNOWN_SESSION, text_block("hello"))
    why = "a message for an unknown session"
    await context.expect_error("R-STEER-03", client, call, (), why=why)


@scenario("steering/idle", "R-STEER-04")
async def _idle(context: AgentContext) -> None:
    """Nothing runs when the user says something, and the client would send a prompt."""
    client = _steerable(context)
    session = await client.new_session()
    words = context.settings.prompt("text")
    call = _say(client, session, text_block(words))
    if not await context.expect_response("R-STEER-04", client, call, "the outcome promptRequired"):
        return
    if call.ok and outcome_of(call.result) is None:
        raise NotExercised(f"the agent answers {format_value(call.result)}")
    await client.connection.sync()
    work = client.updates(session, *_WORK)
    context.judge(
        "R-STEER-04",
        outcome_of(call.result) == "promptRequired" and not work,
        call,
        *(note for note, _ in work[:2]),
        expected="the outcome promptRequired, and no work",
        got=format_value(call.result) if call.ok else call.outcome,
    )
    if outcome_of(call.result) == "startedNewTurn":
        client.cancel(session)


@scenario("steering/turn", "R-STEER-02", "R-STEER-05")
async def _turn(context: AgentContext) -> None:
    """The user says something during a turn, which ends afterwards."""
    client = _steerable(context)
    session = await client.new_session()
    sent = client.prompt_for(session, "tool")
    call = _say(client, session, text_block(context.settings.prompt("text")))
    expected = "an outcome while a turn runs"
    if not await context.expect_response("R-STEER-02", client, call, expected):
        return
    await sent.wait_for_end()
    client.require_accepted(sent)
    if not call.ok:
        raise NotExercised(f"the message was refused: {call.outcome}")
    if outcome_of(call.result) == "promptRequired":
        raise NotExercised("the turn ended too soon to be steered")
    if context.version == 2:
        return  # its work may go on in the background
    ended = len(client.connection.observer.state.frames)

    def late() -> bool:
        return any(note.frame.number >= ended for note, _ in client.updates(session, *_WORK))

    await client.wait_for_optional(late, "work", within_s=_LATE_S)  # the observer judges it


@scenario("steering/permission", "R-STEER-06")
async def _permission(context: AgentContext) -> None:
    """The user says something while a permission request is open, and then allows it."""
    client = _steerable(context)
    session, sent, asked = await open_permission(client)
    call = _say(client, session, text_block(context.settings.prompt("text")))
    # An agent may answer when the user has decided.
    await client.wait_for_optional(
        lambda: call.response is not None, "response", within_s=context.settings.answer
    )
    await client.connection.sync()
    client.permission_policy = client.allow
    for one in client.pending_permissions(session):
        client.allow(one)
    await sent.wait_for_end()
    if asked.response is None:
        raise NotExercised("the permission request was not answered")


STEERING_TURNS = (_refused, _idle, _turn, _permission)
