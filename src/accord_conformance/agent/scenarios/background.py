"""What goes on beside the turn: background work, single cancels, subagents."""

from __future__ import annotations

from typing import Any

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.client import Json, ScenarioClient
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification

__all__ = ("SCENARIOS",)

_FINAL = ("completed", "failed", "cancelled")


@scenario("beside/background", "R-BGW-08", "R-TCAN-04", versions=(2,))
async def _in_background(stage: AgentContext) -> None:
    """Work goes on when the turn is over, also after a cancel, and is ended alone."""
    editor = stage.client
    session = await editor.new_session()
    await editor.run_turn(session, "background")
    items = _background(editor, session)
    if not items:
        raise NotExercised("the agent reported no background work")
    item = items[0]
    editor.cancel(session)
    await editor.connection.sync()
    stage.judge(
        "R-BGW-08",
        not _ended(editor, session, item),
        *_ended(editor, session, item),
        expected="background work that goes on after `session/cancel`",
        got="its end",
    )
    if _ended(editor, session, item):
        return
    kind = item.get("type")
    if kind == "tool_call":
        method, params = "tool_call/cancel", {"toolCallId": item.get("toolCallId")}
    elif kind == "terminal":
        method, params = "terminal/cancel", {"terminalId": item.get("terminalId")}
    else:
        raise NotExercised(f"work of the type {kind} cannot be cancelled by itself")
    call = await editor.connection.call(method, {"sessionId": session, **params})
    if call.ok:
        await _comes_to_an_end(stage, editor, session, item)


@scenario("beside/nothing-to-cancel", "R-TCAN-05", versions=(2,))
async def _nothing_to_cancel(stage: AgentContext) -> None:
    """A tool call and a terminal are cancelled that there are not."""
    session = await stage.client.new_session()
    for method, key in (("tool_call/cancel", "toolCallId"), ("terminal/cancel", "terminalId")):
        call = await stage.client.connection.call(
            method, {"sessionId": session, key: "accord-unknown"}
        )
        if call.ok:  # errors are observed
            stage.judge("R-TCAN-05", False, call, expected=f"-32602 from {method}", got="a result")


@scenario("beside/tool-cancel", "R-TCAN-04", "R-TCAN-06", versions=(2,))
async def _tool_cancel(stage: AgentContext) -> None:
    """A tool call is cancelled by itself, in the middle of a turn."""
    editor = stage.client
    session = await editor.new_session()
    prompted = editor.prompt_for(session, "tool_cancel")
    told = editor.connection.observer.state

    def cancellable() -> list[str]:
        tools = told.sessions[session].tools if session in told.sessions else {}
        return [
            ident
            for ident, tool in tools.items()
            if tool.cancellable and tool.fields.get("status") not in _FINAL
        ]

    await editor.wait_for_optional(lambda: bool(cancellable()) or prompted.is_over, "tool call")
    if not cancellable():
        raise NotExercised("no tool call could be cancelled by itself")
    ident = cancellable()[0]
    states = len(prompted.states())
    call = await editor.connection.call(
        "tool_call/cancel", {"sessionId": session, "toolCallId": ident}
    )
    if not call.ok:
        raise NotExercised(f"the tool call was not cancelled: {describe_outcome(call)}")
    answered = call.response.frame.number if call.response else 0
    early = [
        note
        for note, update in prompted.states()[states:]
        if note.frame.number < answered and update.get("stopReason") == "cancelled"
    ]
    stage.judge(
        "R-TCAN-06",
        not early,
        call,
        *early,
        expected="the session's state as it was",
        got="an idle state, cancelled",
    )
    await _comes_to_an_end(stage, editor, session, {"type": "tool_call", "toolCallId": ident})
    if not prompted.is_over:
        editor.cancel(session)
    await prompted.wait_for_end()


@scenario("beside/subagent", "R-SUBAG-07", "R-SUBAG-08")
async def _subagent(stage: AgentContext) -> None:
    """A subagent works in a session of its own."""
    editor = stage.client
    session = await editor.new_session()
    prompted = await editor.run_turn(session, "subagent")
    told = prompted.updates("subagent_update")
    named = (update.get("sessionId") for _, update in told)
    children = {ident for ident in named if isinstance(ident, str)}
    if not children:
        raise NotExercised("the agent showed no subagent")
    mirrored = [
        (update.get("sessionId"), update["state"].get("state"))
        for _, update in told
        if is_object(update.get("state"))
    ]
    if stage.version == 1:
        wrong = [note for note in editor.connection.notifications if _is_state(note, children)]
        stage.judge(
            "R-SUBAG-08",
            not wrong and bool(mirrored),
            *wrong,
            *(note for note, _ in told[:1]),
            expected="the state of a child in `subagent_update` alone",
            got="a `state_update`" if wrong else "no state",
        )
        return
    for child in children:
        for note, update in editor.updates(str(child), "state_update"):
            stage.judge(
                "R-SUBAG-07",
                (child, update.get("state")) in mirrored,
                note,
                expected=f"the state {update.get('state')} in a `subagent_update`, too",
                got=f"{[state for ident, state in mirrored if ident == child]}",
            )


def _is_state(note: Notification, children: set[Any]) -> bool:
    return note.session_id in children and update_of(note).get("sessionUpdate") == "state_update"


def _background(editor: ScenarioClient, session: str) -> list[Json]:
    """Return the work that the last state lists."""
    states = editor.updates(session, "state_update")
    items = states[-1][1].get("background") if states else None
    return [item for item in items if is_object(item)] if is_array(items) else []


def _ended(editor: ScenarioClient, session: str, item: Json) -> list[Notification]:
    """Return what told of the end of some work."""
    key = "terminalId" if item.get("type") == "terminal" else "toolCallId"
    return [
        note
        for note, update in editor.updates(session, "tool_call_update", "terminal_update")
        if update.get(key) == item.get(key)
        and (update.get("status") in _FINAL or is_object(update.get("exitStatus")))
    ]


async def _comes_to_an_end(
    stage: AgentContext, editor: ScenarioClient, session: str, item: Json
) -> None:
    ended = await editor.wait_for_optional(
        lambda: bool(_ended(editor, session, item)), "end", within_s=stage.settings.answer
    )
    calls = [
        call for call in editor.connection.observer.state.requests if call.session_id == session
    ]
    stage.judge(
        "R-TCAN-04",
        ended,
        *calls[-1:],
        expected="an update that tells its end",
        got=f"none in {stage.settings.answer:g} s",
    )


SCENARIOS = (_in_background, _nothing_to_cancel, _tool_cancel, _subagent)
