"""What only the user can do: cancel the turn, also while the agent asks."""

from __future__ import annotations

from contextlib import suppress

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext
from accord_conformance.client.matchers import (
    IsNot,
)
from accord_conformance.client.probe_scenario import require_probe
from accord_conformance.client.state_probe import (
    expect,
)
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.scenario import NotExercised, scenario

__all__ = ("CANCEL", "SCENES")

CANCEL = "Please cancel this turn now"


@scenario("user/cancel", "R-CANCEL-10", "R-CANCEL-11")
async def _cancel(scene: ClientContext) -> None:
    """The user cancels the turn; tool calls are told of afterwards."""
    scene.say("Please cancel this turn.")
    tool = scene.add_tool_call(CANCEL, kind="other", status="in_progress")
    await scene.wait_for_user_action(lambda: scene.cancelled)
    await _not_yet(scene)
    parts = [{"type": "content", "content": fixtures.text_block("Stopped half way.")}]
    status = "failed" if scene.version == 1 else "cancelled"
    sent = [
        scene.update("tool_call_update", toolCallId=tool, content=parts),
        scene.update("tool_call_update", toolCallId=tool, status=status),
    ]
    await scene.expect_alive(
        "R-CANCEL-10", "updates of a tool call in a turn that is cancelled", *sent
    )


async def _not_yet(scene: ClientContext) -> None:
    """Judge that the session is not taken for idle before the agent has said so."""
    if scene.version == 1:
        return
    sent = scene.connection.notifications[-1] if scene.connection.notifications else None
    with suppress(NotExercised):
        window = await require_probe(scene)
        await window.check([sent], expect("R-CANCEL-11", "", state=IsNot(("idle",))))


@scenario("user/cancel_asked", "R-CANCEL-03", "R-CANCEL-10")
async def _cancel_asked(scene: ClientContext) -> None:
    """The user cancels the turn while the agent waits for a permission."""
    scene.say("Please cancel this turn while the question is open.")
    call = scene.request_permission(f"{CANCEL}, do not answer")
    await scene.wait_for_user_action(lambda: scene.cancelled or call.response is not None, call)
    # An answer `cancelled` may come a moment before the cancel itself.
    await scene.agent.is_alive()
    scene.require(scene.cancelled, "the question was answered, and the turn not cancelled")
    sent = scene.update("session_info_update", title="Check of this client, cancelled")
    await scene.expect_alive("R-CANCEL-10", "an update in a turn that is cancelled", sent)
    if scene.version == 2:
        scene.cancel_request(call)
    try:
        await scene.connection.wait_for_response(call)
    except NoResponse:
        if scene.version == 1 and not scene.connection.is_closed:
            expected = "the outcome cancelled, since the turn was cancelled"
            scene.judge("R-CANCEL-03", False, call, expected=expected, got="no answer")
        scene.cancel_request(call)
        return
    if scene.version == 1:
        late = scene.request_permission("This comes after the cancel")
        try:
            await scene.connection.wait_for_response(late)  # observed
        except NoResponse:
            scene.cancel_request(late)


SCENES = (_cancel_asked, _cancel)
