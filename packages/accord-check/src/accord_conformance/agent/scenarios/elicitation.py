"""Elicitation: the agent's forms and URLs, and its reaction to the response."""

from __future__ import annotations

from collections.abc import Callable

from accord_conformance.agent.context import AgentContext, describe_outcome
from accord_conformance.agent.scenario_client import ScenarioClient, SentPrompt
from accord_conformance.harness.scenario import NotExercised, scenario
from accord_conformance.traffic.message import Request

_ASK = "elicitation/create"


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
            got=f"{sent.stop_reason or describe_outcome(sent.request)}",
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
    _, sent, call = await _open(client)
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
async def _cancel(context: AgentContext) -> None:
    """The turn is cancelled while the agent waits for the user."""
    client = context.client
    session, sent, call = await _open(client)
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


async def _open(client: ScenarioClient) -> tuple[str, SentPrompt, Request]:
    """Return a turn that waits for the user; raise `NotExercised` without an elicitation."""
    session = await client.new_session()
    client.elicitation_policy = client.leave_open
    sent = client.prompt_for(session, "elicit")
    await client.wait_for_optional(
        lambda: bool(_waiting(client, session)) or sent.is_over, "elicitation"
    )
    client.require_accepted(sent)
    if not _waiting(client, session):
        raise NotExercised("the agent sent no elicitation")
    return session, sent, _waiting(client, session)[0]


def _waiting(client: ScenarioClient, session: str) -> list[Request]:
    return client.connection.observer.state.unanswered("agent", _ASK, session)


async def _asked(
    client: ScenarioClient, policy: Callable[[Request], None]
) -> tuple[SentPrompt, list[Request]]:
    session = await client.new_session()
    client.elicitation_policy = policy
    sent = client.prompt_for(session, "elicit")
    await sent.wait_for_end()
    calls = [call for call in client.connection.requests if call.method == _ASK]
    calls = [call for call in calls if call.session_id == session]
    if not calls:
        client.require_accepted(sent)
        raise NotExercised("the agent sent no elicitation")
    return sent, calls


SCENARIOS = (_accept, _decline, _unknown, _while_waiting, _cancel)
