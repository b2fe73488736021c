"""Permissions: given, refused, cancelled, and answers that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from accord.text.lenient_json import is_object
from accord_conformance.agent.client import ScenarioClient, SentPrompt
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.side_effects import SideEffectSign, side_effects, tool_of
from accord_conformance.harness.scenario import Advisory, NotExercised, scenario
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification, Request

__all__ = ("SCENARIOS",)

_ASK = "session/request_permission"
_DONE = ("in_progress", "completed")


@scenario("permissions/allow")
async def _allow(stage: AgentContext) -> None:
    """The user allows what the agent asks for."""
    await _asked_for(stage.client, stage.client.allow)


@scenario("permissions/reject")
async def _reject(stage: AgentContext) -> None:
    """The user rejects what the agent asks for, and it is not done."""
    tried = await _answered(stage, stage.client.reject, "rejected")
    if tried.does:
        raise Advisory(
            f"what the user rejected was done: {_words(tried.does)}",
            "Work on a tool call only when an option that allows it was selected.",
            *tried.calls,
            *_seen(tried.does),
            tried.prompted.request,
            is_failure=True,
        )
    if tried.says:
        raise Advisory(
            f"a rejected tool call goes on with {_words(tried.says)}",
            "End it as `failed`, so that no client shows it as done.",
            *tried.calls,
            *_seen(tried.says),
        )


@scenario("permissions/no-answer", "R-PERM-05", "R-PERM-14")
async def _no_answer(stage: AgentContext) -> None:
    """An option that was not offered is selected, and an outcome that nobody knows comes."""
    editor = stage.client
    refused = await _answered(stage, editor.reject, "rejected")
    allowed = await _answered(stage, editor.allow, "allowed")
    if refused.does or (refused.says and not allowed.does):
        raise NotExercised("a refused tool call looks like one that was allowed")
    if not allowed.does and not allowed.says:
        raise NotExercised("an allowed tool call looks like one that was refused")

    def unknown_option(call: Request) -> None:
        editor.select(call, "accord-unknown-option")

    def unknown_outcome(call: Request) -> None:
        editor.connection.respond(
            call, {"outcome": {"outcome": "_accord", "optionId": _allowing(call)}}
        )

    for rule, policy, what in (
        ("R-PERM-05", unknown_option, "an option that was not offered"),
        ("R-PERM-14", unknown_outcome, "an outcome that nobody knows"),
    ):
        if rule == "R-PERM-14" and stage.version == 1:
            continue
        tried = await _answered(stage, policy, policy.__name__)
        # Where a status says nothing, what is done does.
        signs = tried.does if refused.says else [*tried.does, *tried.says]
        stage.judge(
            rule,
            not signs,
            *tried.calls,
            *_seen(signs),
            tried.prompted.request,
            expected=f"no work on a tool call after {what}",
            got=_words(signs),
        )


@scenario("permissions/cancel")
async def _cancel(stage: AgentContext) -> None:
    """The turn is cancelled while the agent waits for the user."""
    editor = stage.client
    session, prompted, _ = await _open(editor)
    editor.cancel(session)
    await prompted.wait_for_end(within_s=stage.settings.answer)


@scenario("permissions/close", versions=(2,))
async def _close(stage: AgentContext) -> None:
    """The session is closed while the agent waits for the user."""
    editor = stage.client
    session, _, call = await _open(editor)
    await editor.close_session(session)
    if call.response is None:
        editor.answer_cancelled(call)


@scenario("permissions/withdrawn", "R-REQCAN-09", versions=(1,))
async def _withdrawn(stage: AgentContext) -> None:
    """The prompt is withdrawn while the agent waits for the user."""
    editor = stage.client
    session, prompted, call = await _open(editor)
    editor.connection.send_notification("$/cancel_request", {"requestId": prompted.request.id})
    await editor.wait_for_optional(lambda: prompted.is_over, "end", within_s=stage.settings.answer)
    if not prompted.is_over:
        editor.cancel(session)
        await prompted.wait_for_end(within_s=stage.settings.answer)
        raise NotExercised("the agent does not take `$/cancel_request`")
    await editor.connection.sync()
    stage.judge(
        "R-REQCAN-09",
        call.cancelled is not None,
        call,
        prompted.request,
        expected="`$/cancel_request` for the permission that the prompt needed",
        got="none",
    )
    if call.response is None:
        editor.answer_cancelled(call)


@scenario("permissions/waiting", "R-PROMPT-14", versions=(2,))
async def _waiting(stage: AgentContext) -> None:
    """The user takes time to decide, which the state tells."""
    editor = stage.client
    _, prompted, call = await _open(editor)
    await editor.connection.sync()
    before = prompted.states()
    editor.allow(call)
    await prompted.wait_for_end()
    states = [update.get("state") for _, update in before]
    stage.judge(
        "R-PROMPT-14",
        "requires_action" in states,
        call,
        *(note for note, _ in before[-1:]),
        expected="requires_action as long as the agent waits for the user",
        got=f"{states}",
    )


@scenario("permissions/late", "R-PROMPT-36", versions=(2,))
async def _late(stage: AgentContext) -> None:
    """The user allows something when the turn is cancelled already."""
    editor = stage.client
    session, prompted, call = await _open(editor)
    editor.obeys_cancel_request = False
    editor.connection.send_notification("session/cancel", {"sessionId": session})
    try:
        await prompted.wait_for_end(within_s=stage.settings.answer)
    finally:
        began = len(prompted.states())
        editor.allow(call)
    await editor.connection.sync()
    after = prompted.states()[began:]
    stage.judge(
        "R-PROMPT-36",
        not any(update.get("state") == "running" for _, update in after),
        call,
        *(note for note, _ in after),
        expected="no work for an answer that comes when the turn is over",
        got="a running state",
    )


async def _open(editor: ScenarioClient) -> tuple[str, SentPrompt, Request]:
    """Return a turn that waits for the user; raise `NotExercised`."""
    session = await editor.new_session()
    editor.permission_policy = editor.leave_open
    prompted = editor.prompt_for(session, "permission")
    found = await editor.wait_for_optional(
        lambda: bool(editor.pending_permissions(session)) or prompted.is_over, "permission request"
    )
    editor.require_accepted(prompted)
    if not found or not editor.pending_permissions(session):
        raise NotExercised("the agent asked for no permission")
    return session, prompted, editor.pending_permissions(session)[0]


async def _asked_for(
    editor: ScenarioClient, policy: Callable[[Request], None]
) -> tuple[SentPrompt, list[Request]]:
    """Return a turn in which the agent asked, and what; raise `NotExercised`."""
    session = await editor.new_session()
    editor.permission_policy = policy
    prompted = await editor.run_turn(session, "permission")
    calls = [
        call
        for call in editor.connection.requests
        if call.method == _ASK and call.session_id == session
    ]
    if not calls:
        raise NotExercised("the agent asked for no permission")
    return prompted, calls


class _Answered(NamedTuple):
    """A turn in which all that the agent asked for got the same answer, and what came of it."""

    prompted: SentPrompt
    calls: list[Request]
    says: list[SideEffectSign]
    does: list[SideEffectSign]


async def _answered(stage: AgentContext, policy: Callable[[Request], None], name: str) -> _Answered:
    """Play a turn in a folder of its own; raise `NotExercised`."""
    editor = stage.client
    folder = stage.folder / name
    folder.mkdir()
    editor.start_scenario(folder, stage.scenario.name)
    prompted, calls = await _asked_for(editor, policy)
    await editor.connection.sync()
    return _Answered(
        prompted, calls, _said(prompted, calls), list(side_effects(editor, prompted, calls))
    )


def _said(prompted: SentPrompt, calls: list[Request]) -> list[SideEffectSign]:
    """Return what says that a tool call was worked on after its permission was answered.

    Its last status says so: that it is `in_progress` may have been on its way.
    """
    asked = {str(tool_of(call).get("toolCallId")): call for call in calls}
    last: dict[str, tuple[str, Notification]] = {}
    for note, update in prompted.updates("tool_call_update", "tool_call"):
        ident, status = str(update_of(note).get("toolCallId")), update.get("status")
        call = asked.get(ident)
        if call is None or call.response is None or not isinstance(status, str):
            continue
        if note.frame.number > call.response.frame.number:
            last[ident] = status, note
    return [
        SideEffectSign(f"the status {status}", (note,))
        for status, note in last.values()
        if status in _DONE
    ]


def _words(signs: list[SideEffectSign]) -> str:
    return " and ".join(dict.fromkeys(sign.description for sign in signs))


def _seen(signs: list[SideEffectSign]) -> list[Request | Notification]:
    return [item for sign in signs for item in sign.evidence]


def _allowing(call: Request) -> object:
    options = call.params.get("options") if is_object(call.params) else None
    for option in options or ():
        if is_object(option) and str(option.get("kind")).startswith("allow"):
            return option.get("optionId")
    return None


SCENARIOS = (_allow, _reject, _no_answer, _cancel, _close, _withdrawn, _waiting, _late)
