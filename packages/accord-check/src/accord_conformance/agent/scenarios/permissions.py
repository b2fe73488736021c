"""Permission requests: allowed, rejected, cancelled, and invalid responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from accord.text.lenient_json import is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import ScenarioClient, SentPrompt
from accord_conformance.agent.side_effects import SideEffectSign, side_effects, tool_of
from accord_conformance.harness.scenario import Advisory, NotExercised, scenario
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification, Request

_ASK = "session/request_permission"
_DONE = ("in_progress", "completed")


@scenario("permissions/allow")
async def _allow(context: AgentContext) -> None:
    """The user allows the action."""
    sent, calls = await _asked_for(context.client, context.client.allow)
    asked = {tool_of(call).get("toolCallId") for call in calls}
    last = {
        update.get("toolCallId"): update["status"]
        for _, update in sent.updates("tool_call_update", "tool_call")
        if "status" in update
    }
    if asked and all(last.get(ident) == "failed" for ident in asked):
        raise NotExercised("the allowed tool call failed")


@scenario("permissions/reject")
async def _reject(context: AgentContext) -> None:
    """The user rejects the action, and the agent does not do it."""
    tried = await _answered(context, context.client.reject, "rejected")
    if tried.does:
        raise Advisory(
            f"the agent did what the user rejected: {_words(tried.does)}",
            "Run a tool only if the user selected an option that allows it.",
            *tried.calls,
            *_seen(tried.does),
            tried.sent.request,
            is_failure=True,
        )
    if tried.says:
        raise Advisory(
            f"the agent reports a rejected tool call with {_words(tried.says)}",
            "Send `failed` as its final status, so that no client shows it as done.",
            *tried.calls,
            *_seen(tried.says),
        )


@scenario("permissions/invalid-response", "R-PERM-05", "R-PERM-14")
async def _no_answer(context: AgentContext) -> None:
    """The client answers with an unknown option, or with an unknown outcome."""
    client = context.client
    refused = await _answered(context, client.reject, "rejected")
    allowed = await _answered(context, client.allow, "allowed")
    if refused.does or (refused.says and not allowed.does):
        raise NotExercised(
            "the messages for a rejected tool call are the same as for an allowed one"
        )
    if not allowed.does and not allowed.says:
        raise NotExercised(
            "the messages for an allowed tool call are the same as for a rejected one"
        )

    def unknown_option(call: Request) -> None:
        client.select(call, "accord-unknown-option")

    def unknown_outcome(call: Request) -> None:
        client.connection.respond(
            call, {"outcome": {"outcome": "_accord", "optionId": _allowing(call)}}
        )

    for rule, policy, what in (
        ("R-PERM-05", unknown_option, "an option that was not offered"),
        ("R-PERM-14", unknown_outcome, "an unknown outcome"),
    ):
        if rule == "R-PERM-14" and context.version == 1:
            continue
        tried = await _answered(context, policy, policy.__name__)
        # If the status does not show it, side effects do.
        signs = tried.does if refused.says else [*tried.does, *tried.says]
        context.judge(
            rule,
            not signs,
            *tried.calls,
            *_seen(signs),
            tried.sent.request,
            expected=f"no work on a tool call after {what}",
            got=_words(signs),
        )


@scenario("permissions/cancel")
async def _cancel(context: AgentContext) -> None:
    """The turn is cancelled while the agent waits for the user."""
    client = context.client
    session, sent, _ = await _open(client)
    client.cancel(session)
    await sent.wait_for_end(within_s=context.settings.answer)


@scenario("permissions/close", versions=(2,))
async def _close(context: AgentContext) -> None:
    """The session is closed while the agent waits for the user."""
    client = context.client
    session, _, call = await _open(client)
    await client.close_session(session)
    if call.response is None:
        client.answer_cancelled(call)


@scenario("permissions/cancel-request", "R-REQCAN-09", versions=(1,))
async def _withdrawn(context: AgentContext) -> None:
    """The prompt is cancelled by `$/cancel_request` while the agent waits for the user."""
    client = context.client
    session, sent, call = await _open(client)
    client.connection.send_notification("$/cancel_request", {"requestId": sent.request.id})
    await client.wait_for_optional(lambda: sent.is_over, "end", within_s=context.settings.answer)
    if not sent.is_over:
        client.cancel(session)
        await sent.wait_for_end(within_s=context.settings.answer)
        raise NotExercised("the agent does not support `$/cancel_request`")
    await client.connection.sync()
    context.judge(
        "R-REQCAN-09",
        call.cancelled is not None,
        call,
        sent.request,
        expected="`$/cancel_request` for the permission request of the cancelled prompt",
        got="none",
    )
    if call.response is None:
        client.answer_cancelled(call)


@scenario("permissions/waiting", "R-PROMPT-14", versions=(2,))
async def _waiting(context: AgentContext) -> None:
    """The user takes time to decide, which the session state shows."""
    client = context.client
    _, sent, call = await _open(client)
    await client.connection.sync()
    states_before = sent.states()
    client.allow(call)
    await sent.wait_for_end()
    states = [update.get("state") for _, update in states_before]
    context.judge(
        "R-PROMPT-14",
        "requires_action" in states,
        call,
        *(note for note, _ in states_before[-1:]),
        expected="requires_action while the agent waits for the user",
        got=f"{states}",
    )


@scenario("permissions/late", "R-PROMPT-36", versions=(2,))
async def _late(context: AgentContext) -> None:
    """The user allows the action after the turn was cancelled."""
    client = context.client
    session, sent, call = await _open(client)
    client.obeys_cancel_request = False
    client.connection.send_notification("session/cancel", {"sessionId": session})
    try:
        await sent.wait_for_end(within_s=context.settings.answer)
    finally:
        began = len(sent.states())
        client.allow(call)
    await client.connection.sync()
    after = sent.states()[began:]
    context.judge(
        "R-PROMPT-36",
        not any(update.get("state") == "running" for _, update in after),
        call,
        *(note for note, _ in after),
        expected="no work for an answer that arrives after the turn has ended",
        got="a running state",
    )


async def _open(client: ScenarioClient) -> tuple[str, SentPrompt, Request]:
    """Return a turn that waits for the user; raise `NotExercised` without a request."""
    session = await client.new_session()
    client.permission_policy = client.leave_open
    sent = client.prompt_for(session, "permission")
    is_requested = await client.wait_for_optional(
        lambda: bool(client.pending_permissions(session)) or sent.is_over, "permission request"
    )
    client.require_accepted(sent)
    if not is_requested or not client.pending_permissions(session):
        raise NotExercised("the agent did not request permission")
    return session, sent, client.pending_permissions(session)[0]


async def _asked_for(
    client: ScenarioClient, policy: Callable[[Request], None]
) -> tuple[SentPrompt, list[Request]]:
    """Return a turn and its permission requests; raise `NotExercised` without any."""
    session = await client.new_session()
    client.permission_policy = policy
    sent = await client.run_turn(session, "permission")
    calls = [
        call
        for call in client.connection.requests
        if call.method == _ASK and call.session_id == session
    ]
    if not calls:
        raise NotExercised("the agent did not request permission")
    return sent, calls


class _Answered(NamedTuple):
    """A turn in which all permission requests got the same response, and its effects."""

    sent: SentPrompt
    calls: list[Request]
    says: list[SideEffectSign]
    does: list[SideEffectSign]


async def _answered(
    context: AgentContext, policy: Callable[[Request], None], name: str
) -> _Answered:
    """Run a turn in its own folder; raise `NotExercised` without a permission request."""
    client = context.client
    folder = context.folder / name
    folder.mkdir()
    client.start_scenario(folder, context.scenario.name)
    sent, calls = await _asked_for(client, policy)
    await client.connection.sync()
    return _Answered(sent, calls, _said(sent, calls), list(side_effects(client, sent, calls)))


def _said(sent: SentPrompt, calls: list[Request]) -> list[SideEffectSign]:
    """Return the signs in updates that a tool call continued after its permission was answered.

    Only the last status counts: an `in_progress` may have crossed the response.
    """
    asked = {str(tool_of(call).get("toolCallId")): call for call in calls}
    last: dict[str, tuple[str, Notification]] = {}
    for note, update in sent.updates("tool_call_update", "tool_call"):
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
