"""Cancellation by the user, also during a permission request."""

from __future__ import annotations

from contextlib import suppress

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext
from accord_conformance.client.matchers import IsNot
from accord_conformance.client.probe_scenario import require_probe
from accord_conformance.client.state_probe import expect
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import NotExercised, scenario

CANCEL = "Please cancel this turn now"


@scenario("cancellation/turn", "R-CANCEL-10", "R-CANCEL-11")
async def _cancel(context: ClientContext) -> None:
    """The user cancels the turn; updates of tool calls follow."""
    context.say("Please cancel this turn.")
    tool = context.add_tool_call(CANCEL, kind="other", status="in_progress")
    await context.wait_for_user_action(lambda: context.cancelled)
    await _not_yet(context)
    parts = [{"type": "content", "content": fixtures.text_block("Stopped half way.")}]
    status = "failed" if context.version == 1 else "cancelled"
    sent = [
        context.update("tool_call_update", toolCallId=tool, content=parts),
        context.update("tool_call_update", toolCallId=tool, status=status),
    ]
    await context.expect_alive("R-CANCEL-10", "updates of a tool call in a cancelled turn", *sent)


async def _not_yet(context: ClientContext) -> None:
    """Judge that the client does not treat the session as idle before the agent reports it."""
    if context.version == 1:
        return
    sent = context.connection.notifications[-1] if context.connection.notifications else None
    with suppress(NotExercised):
        probe = await require_probe(context)
        await probe.check([sent], expect("R-CANCEL-11", "", state=IsNot(("idle",))))


@scenario("cancellation/permission-request", "R-CANCEL-03", "R-CANCEL-10")
async def _cancel_asked(context: ClientContext) -> None:
    """The user cancels the turn while the agent waits for a permission."""
    context.say("Please cancel this turn while the permission request is open.")
    call = context.request_permission(f"{CANCEL}, do not answer")
    await context.wait_for_user_action(lambda: context.cancelled or call.response is not None, call)
    # The outcome `cancelled` may arrive just before the cancel itself.
    await context.agent.is_alive()
    context.require(
        context.cancelled, "the permission request was answered, and the turn was not cancelled"
    )
    sent = context.update("session_info_update", title="Check of this client, cancelled")
    await context.expect_alive("R-CANCEL-10", "an update in a cancelled turn", sent)
    if context.version == 2:
        context.cancel_request(call)
    try:
        await context.connection.wait_for_response(call)
    except NoResponse:
        if context.version == 1 and not context.connection.is_closed:
            expected = "the outcome cancelled, because the turn was cancelled"
            context.judge("R-CANCEL-03", False, call, expected=expected, got="no answer")
        context.cancel_request(call)
        return
    if context.version == 1:
        late = context.request_permission("This comes after the cancel")
        try:
            await context.connection.wait_for_response(late)  # observed
        except NoResponse:
            context.cancel_request(late)


SCENARIOS = (_cancel_asked, _cancel)
