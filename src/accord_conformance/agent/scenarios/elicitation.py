"""Forms and pages: what the agent asks the user, and what it does with the answer."""

from __future__ import annotations

from collections.abc import Callable

from accord_conformance.agent.client import ScenarioClient, SentPrompt
from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request

__all__ = ("SCENARIOS",)

_ASK = "elicitation/create"


@scenario("asking/accept")
async def _accept(stage: AgentContext) -> None:
    """The user fills in the form."""
    await _asked(stage.client, stage.client.accept_elicitation)


@scenario("asking/decline", "R-ELIC-25")
async def _decline(stage: AgentContext) -> None:
    """The user declines, and cancels, with content that means nothing then."""
    editor = stage.client

    def answer(call: Request) -> None:
        call_number = len(editor.connection.requests)
        action = "decline" if call_number % 2 else "cancel"
        editor.connection.respond(call, {"action": action, "content": None})

    plain, _ = await _asked(editor, answer)
    for action in ("decline", "cancel"):

        def odd(call: Request, action: str = action) -> None:
            content = {"accordUnknown": "a value"}
            editor.connection.respond(call, {"action": action, "content": content})

        prompted, calls = await _asked(editor, odd)
        stage.judge(
            "R-ELIC-25",
            prompted.stop_reason == plain.stop_reason,
            *calls,
            *prompted.evidence,
            expected=f"the turn to end as without content: {plain.stop_reason}",
            got=f"{prompted.stop_reason or describe_outcome(prompted.request)}",
        )


@scenario("asking/unknown")
async def _unknown(stage: AgentContext) -> None:
    """The user does something that nobody knows."""
    editor = stage.client
    await _asked(editor, lambda call: editor.connection.respond(call, {"action": "_accord"}))


@scenario("asking/waiting", "R-ELIC-35", versions=(2,))
async def _while_waiting(stage: AgentContext) -> None:
    """The user takes time to answer, which the state tells."""
    editor = stage.client
    _, prompted, call = await _open(editor)
    await editor.connection.sync()
    before = prompted.states()
    editor.accept_elicitation(call)
    await prompted.wait_for_end()
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
async def _cancel(stage: AgentContext) -> None:
    """The turn is cancelled while the agent waits for the user."""
    editor = stage.client
    session, prompted, call = await _open(editor)
    editor.cancel(session)
    await prompted.wait_for_end(within_s=stage.settings.answer)
    await editor.connection.sync()
    stage.judge(
        "R-CANCEL-16",
        call.cancelled is not None,
        call,
        *prompted.evidence,
        expected="`$/cancel_request` for the form that is not needed any more",
        got="none",
    )
    if call.response is None:
        editor.connection.respond(call, {"action": "cancel"})


async def _open(editor: ScenarioClient) -> tuple[str, SentPrompt, Request]:
    """Return a turn that waits for the user; raise `NotExercised`."""
    session = await editor.new_session()
    editor.elicitation_policy = editor.leave_open
    prompted = editor.prompt_for(session, "elicit")
    await editor.wait_for_optional(
        lambda: bool(_waiting(editor, session)) or prompted.is_over, "elicitation"
    )
    editor.require_accepted(prompted)
    if not _waiting(editor, session):
        raise NotExercised("the agent asked the user for nothing")
    return session, prompted, _waiting(editor, session)[0]


def _waiting(editor: ScenarioClient, session: str) -> list[Request]:
    return editor.connection.observer.state.unanswered("agent", _ASK, session)


async def _asked(
    editor: ScenarioClient, policy: Callable[[Request], None]
) -> tuple[SentPrompt, list[Request]]:
    session = await editor.new_session()
    editor.elicitation_policy = policy
    prompted = editor.prompt_for(session, "elicit")
    await prompted.wait_for_end()
    calls = [call for call in editor.connection.requests if call.method == _ASK]
    calls = [call for call in calls if call.session_id == session]
    if not calls:
        editor.require_accepted(prompted)
        raise NotExercised("the agent asked the user for nothing")
    return prompted, calls


SCENARIOS = (_accept, _decline, _unknown, _while_waiting, _cancel)
