"""Scenarios for what an agent asks of its client: permission, files, commands, forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from accord.text.lenient_json import is_array, is_object
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.scenario_client import Json, ScenarioClient, SentPrompt
from accord_conformance.harness import Advisory, NotExercised, scenario
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Notification, Request

# Side effects: evidence that an action was done for which permission was requested.
#
# The status of a tool call is not enough: some agents report a rejected call as `completed`, with a
# text that it was declined.

_MAX_FILES = 10_000


class SideEffectSign(NamedTuple):
    """A sign that a tool call was executed."""

    description: str
    evidence: tuple[Request | Notification, ...]


def side_effects(
    client: ScenarioClient, sent: SentPrompt, answered: list[Request]
) -> Iterator[SideEffectSign]:
    """Yield signs that the actions were done for which permission was requested.

    The client's folder belongs to this turn only, and was empty before.
    """
    call_texts = {call.frame.number: _call_text(client, sent, call) for call in answered}
    asked = "".join(call_texts.values()) + _text(sent.request)
    for path in sorted(islice(client.folder.rglob("*"), _MAX_FILES)):
        if _names(asked, path.name) and not path.is_dir():
            yield SideEffectSign(f"a new file {path.name}", ())
    for call in answered:
        for used in _later(client, sent, call):
            if what := _named(used, call_texts[call.frame.number]):
                yield SideEffectSign(f"{used.method} for {what}", (call, used))


def tool_of(call: Request) -> Json:
    """Return the tool call of a permission request, or an empty object."""
    params = call.params if is_object(call.params) else {}
    subject = params.get("subject")
    tool = subject.get("toolCall") if is_object(subject) else params.get("toolCall")
    return tool if is_object(tool) else {}


def _call_text(client: ScenarioClient, sent: SentPrompt, call: Request) -> str:
    """Return all texts about the action that the user had to permit."""
    session = client.connection.observer.state.find_session(sent.session)
    tool = session.tools.get(str(tool_of(call).get("toolCallId"))) if session else None
    return _text(call) + "\n".join(_strings(tool.fields if tool else None))


def _text(call: Request) -> str:
    return "\n".join(_strings(call.params)) + "\n"


def _strings(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for inner in value.values():
            yield from _strings(inner)
    elif is_array(value):
        for inner in value:
            yield from _strings(inner)


def _names(text: str, name: str) -> bool:
    """Return whether a text contains the name of a file as a whole word."""
    return bool(name) and bool(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text))


def _later(client: ScenarioClient, sent: SentPrompt, answered: Request) -> list[Request]:
    """Return the agent's requests in this session after a response."""
    if answered.response is None:
        return []
    return [
        call
        for call in client.connection.requests
        if call.session_id == sent.session
        and call.frame.number > answered.response.frame.number
        and is_object(call.params)
    ]


def _named(used: Request, call_text: str) -> str:
    """Return the target of a request if it is the action that the user had to permit."""
    match used.method:
        case "fs/write_text_file":
            name = Path(str(used.params.get("path"))).name
            return name if _names(call_text, name) else ""
        case "terminal/create":
            args = used.params.get("args")
            words = [str(word) for word in args] if is_array(args) else []
            # A single word may be the name of a file that is only read.
            whole = " ".join([str(used.params.get("command")), *words])
            for line in (whole, " ".join(words)):
                if " " in line and line in call_text:
                    return f"`{line}`"
            return ""
        case _:
            return ""


# Permission requests: allowed, rejected, cancelled, and invalid responses.

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
    session, sent, _ = await open_permission(client)
    client.cancel(session)
    await sent.wait_for_end(within_s=context.settings.answer)


@scenario("permissions/close", versions=(2,))
async def _close(context: AgentContext) -> None:
    """The session is closed while the agent waits for the user."""
    client = context.client
    session, _, call = await open_permission(client)
    await client.close_session(session)
    if call.response is None:
        client.answer_cancelled(call)


@scenario("permissions/cancel-request", "R-REQCAN-09", versions=(1,))
async def _withdrawn(context: AgentContext) -> None:
    """The prompt is cancelled by `$/cancel_request` while the agent waits for the user."""
    client = context.client
    session, sent, call = await open_permission(client)
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
    _, sent, call = await open_permission(client)
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
    session, sent, call = await open_permission(client)
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


async def open_permission(client: ScenarioClient) -> tuple[str, SentPrompt, Request]:
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


PERMISSIONS = (_allow, _reject, _no_answer, _cancel, _close, _withdrawn, _waiting, _late)


# Files and commands, by the client's methods if it has them.

_WORD = "quince"


@scenario("files/read", "R-SESS-04")
async def _read(context: AgentContext) -> None:
    """The agent reads a file by its name in the session's directory."""
    client = context.client
    note = context.folder / "note.txt"
    note.write_text(f"The word is {_WORD}.\n", "utf-8")
    session = await client.new_session()
    sent = await client.run_turn(session, "file_read")
    elsewhere = _elsewhere(context, sent, note)
    if not elsewhere and _WORD not in sent.agent_text():
        raise NotExercised("the agent did not report the text of the file")
    context.judge(
        "R-SESS-04",
        not elsewhere,
        sent.request,
        *elsewhere,
        expected=f"{note}",
        got="the file of that name in another directory",
    )


def _elsewhere(context: AgentContext, sent: SentPrompt, note: Path) -> list[Request | Notification]:
    """Return messages with a note that is not in the session's directory."""
    messages: list[Request | Notification] = []
    for call in context.client.connection.requests:
        path = call.params.get("path") if is_object(call.params) else None
        if call.session_id == sent.session and _is_other(path, note):
            messages.append(call)
    for note_update, update in sent.updates("tool_call", "tool_call_update"):
        locations = update.get("locations")
        named: list[Any] = locations if is_array(locations) else []
        paths = [location.get("path") for location in named if is_object(location)]
        if any(_is_other(path, note) for path in paths):
            messages.append(note_update)
    return messages


def _is_other(path: object, note: Path) -> bool:
    if not isinstance(path, str) or Path(path).name != note.name:
        return False
    return Path(path).is_absolute() and Path(path).resolve() != note.resolve()


@scenario("files/write")
async def _write(context: AgentContext) -> None:
    """The agent writes a file."""
    client = context.client
    await client.run_turn(await client.new_session(), "file_write")


@scenario("terminals/run", "R-DTERM-10")
async def _run(context: AgentContext) -> None:
    """The agent runs a command."""
    client = context.client
    sent = await client.run_turn(await client.new_session(), "terminal")
    await client.connection.sync()  # terminals may be released after the turn
    first: dict[str, Notification] = {}
    for note, update in sent.updates("terminal_update", "terminal_output_chunk"):
        ident = str(update.get("terminalId"))
        began = first.setdefault(ident, note)
        if isinstance(update.get("command"), str):
            context.judge(
                "R-DTERM-10",
                began is note,
                began,
                note,
                expected="the command in the first update of the terminal",
                got="the command in a later update",
            )


FILES_AND_TERMINALS = (_read, _write, _run)


# Elicitation: forms and URLs, and what the agent does with the response.

_ELICITATION_ASK = "elicitation/create"


@scenario("elicitation/accept")
async def _accept(context: AgentContext) -> None:
    """The user fills in the form."""
    await _asked(context.client, context.client.accept_elicitation)


@scenario("elicitation/decline", "R-ELIC-25")
async def _decline(context: AgentContext) -> None:
    """The user declines and cancels, with content that the agent must ignore."""
    client = context.client

    def answer(call: Request) -> None:
        call_number = len(client.connection.requests)
        action = "decline" if call_number % 2 else "cancel"
        client.connection.respond(call, {"action": action, "content": None})

    plain, _ = await _asked(client, answer)
    for action in ("decline", "cancel"):

        def odd(call: Request, action: str = action) -> None:
            content = {"accordUnknown": "a value"}
            client.connection.respond(call, {"action": action, "content": content})

        sent, calls = await _asked(client, odd)
        context.judge(
            "R-ELIC-25",
            sent.stop_reason == plain.stop_reason,
            *calls,
            *sent.evidence,
            expected=f"the stop reason {plain.stop_reason}, as without content",
            got=f"{sent.stop_reason or sent.request.outcome}",
        )


@scenario("elicitation/unknown-action")
async def _unknown(context: AgentContext) -> None:
    """The client answers with an unknown action."""
    client = context.client
    await _asked(client, lambda call: client.connection.respond(call, {"action": "_accord"}))


@scenario("elicitation/waiting", "R-ELIC-35", versions=(2,))
async def _while_waiting(context: AgentContext) -> None:
    """The user takes time to answer, which the session state shows."""
    client = context.client
    _, sent, call = await _elicitation_open(client)
    await client.connection.sync()
    states_before = sent.states()
    client.accept_elicitation(call)
    await sent.wait_for_end()
    states = [update.get("state") for _, update in states_before]
    context.judge(
        "R-ELIC-35",
        "requires_action" in states,
        call,
        *(note for note, _ in states_before[-1:]),
        expected="requires_action while the agent waits for the user",
        got=f"{states}",
    )


@scenario("elicitation/cancel", "R-CANCEL-16")
async def _elicitation_cancel(context: AgentContext) -> None:
    """The turn is cancelled while the agent waits for the user."""
    client = context.client
    session, sent, call = await _elicitation_open(client)
    client.cancel(session)
    await sent.wait_for_end(within_s=context.settings.answer)
    await client.connection.sync()
    context.judge(
        "R-CANCEL-16",
        call.cancelled is not None,
        call,
        *sent.evidence,
        expected="`$/cancel_request` for the elicitation of the cancelled turn",
        got="none",
    )
    if call.response is None:
        client.connection.respond(call, {"action": "cancel"})


async def _elicitation_open(client: ScenarioClient) -> tuple[str, SentPrompt, Request]:
    """Return a turn that waits for the user; raise `NotExercised` without an elicitation."""
    session = await client.new_session()
    client.elicitation_policy = client.leave_open
    sent = client.prompt_for(session, "elicit")
    await client.wait_for_optional(
        lambda: bool(_elicitation_waiting(client, session)) or sent.is_over, "elicitation"
    )
    client.require_accepted(sent)
    if not _elicitation_waiting(client, session):
        raise NotExercised("the agent sent no elicitation")
    return session, sent, _elicitation_waiting(client, session)[0]


def _elicitation_waiting(client: ScenarioClient, session: str) -> list[Request]:
    return client.connection.observer.state.unanswered("agent", _ELICITATION_ASK, session)


async def _asked(
    client: ScenarioClient, policy: Callable[[Request], None]
) -> tuple[SentPrompt, list[Request]]:
    session = await client.new_session()
    client.elicitation_policy = policy
    sent = client.prompt_for(session, "elicit")
    await sent.wait_for_end()
    calls = [call for call in client.connection.requests if call.method == _ELICITATION_ASK]
    calls = [call for call in calls if call.session_id == session]
    if not calls:
        client.require_accepted(sent)
        raise NotExercised("the agent sent no elicitation")
    return sent, calls


ELICITATION = (_accept, _decline, _unknown, _while_waiting, _elicitation_cancel)
