"""Forms and pages: what the agent asks the user, and what it does with the answer."""

from __future__ import annotations

from collections.abc import Callable

from accord_conformance.agent.client import Editor, Prompted
from accord_conformance.agent.context import Stage, outcome_of
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Call

__all__ = ("SCENARIOS",)

_ASK = "elicitation/create"


@scenario("asking/accept")
async def _accept(stage: Stage) -> None:
    """The user fills in the form."""
    await _asked(stage.editor, stage.editor.accept)


@scenario("asking/decline", "R-ELIC-25")
async def _decline(stage: Stage) -> None:
    """The user declines, and cancels, with content that means nothing then."""
    editor = stage.editor

    def answer(call: Call) -> None:
        call_number = len(editor.line.calls)
        action = "decline" if call_number % 2 else "cancel"
        editor.line.answer(call, {"action": action, "content": None})

    plain, _ = await _asked(editor, answer)
    for action in ("decline", "cancel"):

        def odd(call: Call, action: str = action) -> None:
            content = {"accordUnknown": "a value"}
            editor.line.answer(call, {"action": action, "content": content})

        prompted, calls = await _asked(editor, odd)
        stage.judge(
            "R-ELIC-25",
            prompted.stop_reason == plain.stop_reason,
            *calls,
            *prompted.shows,
            expected=f"the turn to end as without content: {plain.stop_reason}",
            got=f"{prompted.stop_reason or outcome_of(prompted.call)}",
        )


@scenario("asking/unknown")
async def _unknown(stage: Stage) -> None:
    """The user does something that nobody knows."""
    editor = stage.editor
    await _asked(editor, lambda call: editor.line.answer(call, {"action": "_accord"}))


@scenario("asking/waiting", "R-ELIC-35", versions=(2,))
async def _while_waiting(stage: Stage) -> None:
    """The user takes time to answer, which the state tells."""
    editor = stage.editor
    _, prompted, call = await _open(editor)
    await editor.line.settle()
    before = prompted.states()
    editor.accept(call)
    await prompted.end()
    states = [update.get("state") for _, update in before]
    stage.judge(
        "R-ELIC-35",
        "requires_action" in states,
        call,
        *(note for note, _ in before[-1:]),
        expected="requires_action as long as the agent waits for the user",
        got=f"{states}",
    )


@scenario("asking/cancel", "R-CANCEL-16")
async def _cancel(stage: Stage) -> None:
    """The turn is cancelled while the agent waits for the user."""
    editor = stage.editor
    session, prompted, call = await _open(editor)
    editor.cancel(session)
    await prompted.end(within_s=stage.settings.answer)
    await editor.line.settle()
    stage.judge(
        "R-CANCEL-16",
        call.cancelled is not None,
        call,
        *prompted.shows,
        expected="`$/cancel_request` for the form that is not needed any more",
        got="none",
    )
    if call.reply is None:
        editor.line.answer(call, {"action": "cancel"})


async def _open(editor: Editor) -> tuple[str, Prompted, Call]:
    """Return a turn that waits for the user; raise `NotExercised`."""
    session = await editor.new_session()
    editor.elicitation = editor.leave_open
    prompted = editor.ask_for(session, "elicit")
    await editor.comes(lambda: bool(_waiting(editor, session)) or prompted.over, "elicitation")
    editor.taken(prompted)
    if not _waiting(editor, session):
        raise NotExercised("the agent asked the user for nothing")
    return session, prompted, _waiting(editor, session)[0]


def _waiting(editor: Editor, session: str) -> list[Call]:
    return editor.line.observer.talk.waiting("agent", _ASK, session)


async def _asked(editor: Editor, policy: Callable[[Call], None]) -> tuple[Prompted, list[Call]]:
    session = await editor.new_session()
    editor.elicitation = policy
    prompted = editor.ask_for(session, "elicit")
    await prompted.end()
    calls = [call for call in editor.line.calls if call.method == _ASK]
    calls = [call for call in calls if call.session_id == session]
    if not calls:
        editor.taken(prompted)
        raise NotExercised("the agent asked the user for nothing")
    return prompted, calls


SCENARIOS = (_accept, _decline, _unknown, _while_waiting, _cancel)
