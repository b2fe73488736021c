"""What only the user can do: cancel the turn, also while the agent asks."""

from __future__ import annotations

from contextlib import suppress

from accord_conformance.client import fixtures
from accord_conformance.client.context import Scene
from accord_conformance.client.probe_scenario import window_of
from accord_conformance.client.state_probe import Not, claim
from accord_conformance.harness.raw_connection import Silence
from accord_conformance.harness.scenario import NotExercised, scenario

__all__ = ("CANCEL", "SCENES")

CANCEL = "Please cancel this turn now"


@scenario("user/cancel", "R-CANCEL-10", "R-CANCEL-11")
async def _cancel(scene: Scene) -> None:
    """The user cancels the turn; tool calls are told of afterwards."""
    scene.say("Please cancel this turn.")
    tool = scene.tool(CANCEL, kind="other", status="in_progress")
    await scene.awaits(lambda: scene.cancelled)
    await _not_yet(scene)
    parts = [{"type": "content", "content": fixtures.text("Stopped half way.")}]
    status = "failed" if scene.version == 1 else "cancelled"
    sent = [
        scene.update("tool_call_update", toolCallId=tool, content=parts),
        scene.update("tool_call_update", toolCallId=tool, status=status),
    ]
    await scene.goes_on("R-CANCEL-10", "updates of a tool call in a turn that is cancelled", *sent)


async def _not_yet(scene: Scene) -> None:
    """Judge that the session is not taken for idle before the agent has said so."""
    if scene.version == 1:
        return
    sent = scene.line.notes[-1] if scene.line.notes else None
    with suppress(NotExercised):
        window = await window_of(scene)
        await window.claims([sent], claim("R-CANCEL-11", "", state=Not(("idle",))))


@scenario("user/cancel_asked", "R-CANCEL-03", "R-CANCEL-10")
async def _cancel_asked(scene: Scene) -> None:
    """The user cancels the turn while the agent waits for a permission."""
    scene.say("Please cancel this turn while the question is open.")
    call = scene.permission(f"{CANCEL}, do not answer")
    await scene.awaits(lambda: scene.cancelled or call.reply is not None, call)
    # An answer `cancelled` may come a moment before the cancel itself.
    await scene.posing.alive()
    scene.needs(scene.cancelled, "the question was answered, and the turn not cancelled")
    sent = scene.update("session_info_update", title="Check of this client, cancelled")
    await scene.goes_on("R-CANCEL-10", "an update in a turn that is cancelled", sent)
    if scene.version == 2:
        scene.withdraw(call)
    try:
        await scene.line.reply(call)
    except Silence:
        if scene.version == 1 and not scene.line.hung_up:
            expected = "the outcome cancelled, since the turn was cancelled"
            scene.judge("R-CANCEL-03", False, call, expected=expected, got="no answer")
        scene.withdraw(call)
        return
    if scene.version == 1:
        late = scene.permission("This comes after the cancel")
        try:
            await scene.line.reply(late)  # observed
        except Silence:
            scene.withdraw(late)


SCENES = (_cancel_asked, _cancel)
