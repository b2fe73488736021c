"""Background work, cancellation of single tool calls, and subagents."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenario_client import Json, ScenarioClient
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification

_FINAL = ("completed", "failed", "cancelled")


@scenario("background/work", "R-BGW-08", "R-TCAN-04", versions=(2,))
async def _in_background(context: AgentContext) -> None:
    """Work continues after the turn and after a cancel, and is cancelled individually."""
    client = context.client
    session = await client.new_session()
    await client.run_turn(session, "background")
    items = _background(client, session)
    if not items:
        raise NotExercised("the agent reported no background work")
    item = items[0]
    client.cancel(session)
    await client.connection.sync()
    context.judge(
        "R-BGW-08",
        not _ended(client, session, item),
        *_ended(client, session, item),
        expected="background work that continues after `session/cancel`",
        got="a final status",
    )
    if _ended(client, session, item):
        return
    kind = item.get("type")
    if kind == "tool_call":
        method, params = "tool_call/cancel", {"toolCallId": item.get("toolCallId")}
    elif kind == "terminal":
        method, params = "terminal/cancel", {"terminalId": item.get("terminalId")}
    else:
        raise NotExercised(f"work of the type {kind} cannot be cancelled individually")
    call = await client.connection.call(method, {"sessionId": session, **params})
    if call.ok:
        await _expect_end(context, client, session, item)


@scenario("background/cancel-unknown", "R-TCAN-05", versions=(2,))
async def _nothing_to_cancel(context: AgentContext) -> None:
    """Unknown tool calls and terminals are cancelled."""
    session = await context.client.new_session()
    for method, key in (("tool_call/cancel", "toolCallId"), ("terminal/cancel", "terminalId")):
        call = await context.client.connection.call(
            method, {"sessionId": session, key: "accord-unknown"}
        )
        if call.ok:  # errors are observed
            context.judge(
                "R-TCAN-05", False, call, expected=f"-32602 from {method}", got="a result"
            )


@scenario("background/cancel-tool-call", "R-TCAN-04", "R-TCAN-06", versions=(2,))
async def _tool_cancel(context: AgentContext) -> None:
    """A tool call is cancelled individually, during a turn."""
    client = context.client
    session = await client.new_session()
    sent = client.prompt_for(session, "tool_cancel")
    state = client.connection.observer.state

    def cancellable() -> list[str]:
        tools = state.sessions[session].tools if session in state.sessions else {}
        return [
            ident
            for ident, tool in tools.items()
            if tool.cancellable and tool.fields.get("status") not in _FINAL
        ]

    await client.wait_for_optional(lambda: bool(cancellable()) or sent.is_over, "tool call")
    if not cancellable():
        raise NotExercised("no tool call could be cancelled individually")
    ident = cancellable()[0]
    states = len(sent.states())
    call = await client.connection.call(
        "tool_call/cancel", {"sessionId": session, "toolCallId": ident}
    )
    if not call.ok:
        raise NotExercised(f"the tool call was not cancelled: {describe_outcome(call)}")
    answered = call.response.frame.number if call.response else 0
    early = [
        note
        for note, update in sent.states()[states:]
        if note.frame.number < answered and update.get("stopReason") == "cancelled"
    ]
    context.judge(
        "R-TCAN-06",
        not early,
        call,
        *early,
        expected="an unchanged session state",
        got="an idle state with the stop reason cancelled",
    )
    await _expect_end(context, client, session, {"type": "tool_call", "toolCallId": ident})
    if not sent.is_over:
        client.cancel(session)
    await sent.wait_for_end()


@scenario("background/subagent", "R-SUBAG-07", "R-SUBAG-08")
async def _subagent(context: AgentContext) -> None:
    """A subagent works in a session of its own."""
    client = context.client
    session = await client.new_session()
    sent = await client.run_turn(session, "subagent")
    reports = sent.updates("subagent_update")
    named = (update.get("sessionId") for _, update in reports)
    children = {ident for ident in named if isinstance(ident, str)}
    if not children:
        raise NotExercised("the agent reported no subagent")
    mirrored = [
        (update.get("sessionId"), update["state"].get("state"))
        for _, update in reports
        if is_object(update.get("state"))
    ]
    if context.version == 1:
        wrong = [note for note in client.connection.notifications if _is_state(note, children)]
        context.judge(
            "R-SUBAG-08",
            not wrong and bool(mirrored),
            *wrong,
            *(note for note, _ in reports[:1]),
            expected="the state of a child only in `subagent_update`",
            got="a `state_update`" if wrong else "no state",
        )
        return
    for child in children:
        for note, update in client.updates(str(child), "state_update"):
            context.judge(
                "R-SUBAG-07",
                (child, update.get("state")) in mirrored,
                note,
                expected=f"the state {update.get('state')} in a `subagent_update`, too",
                got=f"{[state for ident, state in mirrored if ident == child]}",
            )


def _is_state(note: Notification, children: set[Any]) -> bool:
    return note.session_id in children and update_of(note).get("sessionUpdate") == "state_update"


def _background(client: ScenarioClient, session: str) -> list[Json]:
    """Return the work in the last state update."""
    states = client.updates(session, "state_update")
    items = states[-1][1].get("background") if states else None
    return [item for item in items if is_object(item)] if is_array(items) else []


def _ended(client: ScenarioClient, session: str, item: Json) -> list[Notification]:
    """Return the updates that report the end of some work."""
    key = "terminalId" if item.get("type") == "terminal" else "toolCallId"
    return [
        note
        for note, update in client.updates(session, "tool_call_update", "terminal_update")
        if update.get(key) == item.get(key)
        and (update.get("status") in _FINAL or is_object(update.get("exitStatus")))
    ]


async def _expect_end(
    context: AgentContext, client: ScenarioClient, session: str, item: Json
) -> None:
    ended = await client.wait_for_optional(
        lambda: bool(_ended(client, session, item)), "end", within_s=context.settings.answer
    )
    calls = [
        call for call in client.connection.observer.state.requests if call.session_id == session
    ]
    context.judge(
        "R-TCAN-04",
        ended,
        *calls[-1:],
        expected="an update with its final status",
        got=f"none in {context.settings.answer:g} s",
    )


SCENARIOS = (_in_background, _nothing_to_cancel, _tool_cancel, _subagent)
