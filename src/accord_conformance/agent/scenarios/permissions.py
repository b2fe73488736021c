"""Permissions: given, refused, cancelled, and answers that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from accord.text.lenient_json import is_object
from accord_conformance.agent.client import Editor, Prompted
from accord_conformance.agent.context import Stage
from accord_conformance.agent.side_effects import Sign, deeds, tool_of
from accord_conformance.harness.scenario import NotExercised, Objection, scenario
from accord_conformance.traffic.connection_state import update_of
from accord_conformance.traffic.message import Call, Note

__all__ = ("SCENARIOS",)

_ASK = "session/request_permission"
_DONE = ("in_progress", "completed")


@scenario("permissions/allow")
async def _allow(stage: Stage) -> None:
    """The user allows what the agent asks for."""
    await _asked_for(stage.editor, stage.editor.allow)


@scenario("permissions/reject")
async def _reject(stage: Stage) -> None:
    """The user rejects what the agent asks for, and it is not done."""
    tried = await _answered(stage, stage.editor.reject, "rejected")
    if tried.does:
        raise Objection(
            f"what the user rejected was done: {_words(tried.does)}",
            "Work on a tool call only when an option that allows it was selected.",
            *tried.calls,
            *_seen(tried.does),
            tried.prompted.call,
            wrong=True,
        )
    if tried.says:
        raise Objection(
            f"a rejected tool call goes on with {_words(tried.says)}",
            "End it as `failed`, so that no client shows it as done.",
            *tried.calls,
            *_seen(tried.says),
        )


@scenario("permissions/no-answer", "R-PERM-05", "R-PERM-14")
async def _no_answer(stage: Stage) -> None:
    """An option that was not offered is selected, and an outcome that nobody knows comes."""
    editor = stage.editor
    refused = await _answered(stage, editor.reject, "rejected")
    allowed = await _answered(stage, editor.allow, "allowed")
    if refused.does or (refused.says and not allowed.does):
        raise NotExercised("a refused tool call looks like one that was allowed")
    if not allowed.does and not allowed.says:
        raise NotExercised("an allowed tool call looks like one that was refused")

    def unknown_option(call: Call) -> None:
        editor.select(call, "accord-unknown-option")

    def unknown_outcome(call: Call) -> None:
        editor.line.answer(call, {"outcome": {"outcome": "_accord", "optionId": _allowing(call)}})

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
            tried.prompted.call,
            expected=f"no work on a tool call after {what}",
            got=_words(signs),
        )


@scenario("permissions/cancel")
async def _cancel(stage: Stage) -> None:
    """The turn is cancelled while the agent waits for the user."""
    editor = stage.editor
    session, prompted, _ = await _open(editor)
    editor.cancel(session)
    await prompted.end(within_s=stage.settings.answer)


@scenario("permissions/close", versions=(2,))
async def _close(stage: Stage) -> None:
    """The session is closed while the agent waits for the user."""
    editor = stage.editor
    session, _, call = await _open(editor)
    await editor.close(session)
    if call.reply is None:
        editor.cancelled(call)


@scenario("permissions/withdrawn", "R-REQCAN-09", versions=(1,))
async def _withdrawn(stage: Stage) -> None:
    """The prompt is withdrawn while the agent waits for the user."""
    editor = stage.editor
    session, prompted, call = await _open(editor)
    editor.line.note("$/cancel_request", {"requestId": prompted.call.id})
    await editor.comes(lambda: prompted.over, "end", within_s=stage.settings.answer)
    if not prompted.over:
        editor.cancel(session)
        await prompted.end(within_s=stage.settings.answer)
        raise NotExercised("the agent does not take `$/cancel_request`")
    await editor.line.settle()
    stage.judge(
        "R-REQCAN-09",
        call.cancelled is not None,
        call,
        prompted.call,
        expected="`$/cancel_request` for the permission that the prompt needed",
        got="none",
    )
    if call.reply is None:
        editor.cancelled(call)


@scenario("permissions/waiting", "R-PROMPT-14", versions=(2,))
async def _waiting(stage: Stage) -> None:
    """The user takes time to decide, which the state tells."""
    editor = stage.editor
    _, prompted, call = await _open(editor)
    await editor.line.settle()
    before = prompted.states()
    editor.allow(call)
    await prompted.end()
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
async def _late(stage: Stage) -> None:
    """The user allows something when the turn is cancelled already."""
    editor = stage.editor
    session, prompted, call = await _open(editor)
    editor.withdraws = False
    editor.line.note("session/cancel", {"sessionId": session})
    try:
        await prompted.end(within_s=stage.settings.answer)
    finally:
        began = len(prompted.states())
        editor.allow(call)
    await editor.line.settle()
    after = prompted.states()[began:]
    stage.judge(
        "R-PROMPT-36",
        not any(update.get("state") == "running" for _, update in after),
        call,
        *(note for note, _ in after),
        expected="no work for an answer that comes when the turn is over",
        got="a running state",
    )


async def _open(editor: Editor) -> tuple[str, Prompted, Call]:
    """Return a turn that waits for the user; raise `NotExercised`."""
    session = await editor.new_session()
    editor.permission = editor.leave_open
    prompted = editor.ask_for(session, "permission")
    found = await editor.comes(
        lambda: bool(editor.asked(session)) or prompted.over, "permission request"
    )
    editor.taken(prompted)
    if not found or not editor.asked(session):
        raise NotExercised("the agent asked for no permission")
    return session, prompted, editor.asked(session)[0]


async def _asked_for(editor: Editor, policy: Callable[[Call], None]) -> tuple[Prompted, list[Call]]:
    """Return a turn in which the agent asked, and what; raise `NotExercised`."""
    session = await editor.new_session()
    editor.permission = policy
    prompted = await editor.turn(session, "permission")
    calls = [
        call for call in editor.line.calls if call.method == _ASK and call.session_id == session
    ]
    if not calls:
        raise NotExercised("the agent asked for no permission")
    return prompted, calls


class _Answered(NamedTuple):
    """A turn in which all that the agent asked for got the same answer, and what came of it."""

    prompted: Prompted
    calls: list[Call]
    says: list[Sign]
    does: list[Sign]


async def _answered(stage: Stage, policy: Callable[[Call], None], name: str) -> _Answered:
    """Play a turn in a folder of its own; raise `NotExercised`."""
    editor = stage.editor
    folder = stage.folder / name
    folder.mkdir()
    editor.begin(folder, stage.scenario.name)
    prompted, calls = await _asked_for(editor, policy)
    await editor.line.settle()
    return _Answered(prompted, calls, _said(prompted, calls), list(deeds(editor, prompted, calls)))


def _said(prompted: Prompted, calls: list[Call]) -> list[Sign]:
    """Return what says that a tool call was worked on after its permission was answered.

    Its last status says so: that it is `in_progress` may have been on its way.
    """
    asked = {str(tool_of(call).get("toolCallId")): call for call in calls}
    last: dict[str, tuple[str, Note]] = {}
    for note, update in prompted.updates("tool_call_update", "tool_call"):
        ident, status = str(update_of(note).get("toolCallId")), update.get("status")
        call = asked.get(ident)
        if call is None or call.reply is None or not isinstance(status, str):
            continue
        if note.frame.number > call.reply.frame.number:
            last[ident] = status, note
    return [
        Sign(f"the status {status}", (note,)) for status, note in last.values() if status in _DONE
    ]


def _words(signs: list[Sign]) -> str:
    return " and ".join(dict.fromkeys(sign.words for sign in signs))


def _seen(signs: list[Sign]) -> list[Call | Note]:
    return [item for sign in signs for item in sign.seen]


def _allowing(call: Call) -> object:
    options = call.params.get("options") if is_object(call.params) else None
    for option in options or ():
        if is_object(option) and str(option.get("kind")).startswith("allow"):
            return option.get("optionId")
    return None


SCENARIOS = (_allow, _reject, _no_answer, _cancel, _close, _withdrawn, _waiting, _late)
