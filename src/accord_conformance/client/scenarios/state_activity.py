"""What a session is doing, and what goes on behind it (version 2)."""

from __future__ import annotations

from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import (
    HasLength,
    IsNot,
)
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import (
    StateProbe,
    expect,
)
from accord_conformance.traffic.frame import Frame

__all__ = ("SCENES",)


@probe_scenario("shown/states", "R-PROMPT-34", "R-PROMPT-37", versions=(2,))
async def _states(scene: ClientContext, window: StateProbe) -> None:
    """The state is one that nobody knows, and one that the agent does not know itself."""
    sent = [_state(scene, "running")]
    await window.learn()
    sent += [_state(scene, "_accord_dreaming")]
    await window.check(sent, expect("R-PROMPT-34", "", state=IsNot(("idle", "running"))))
    sent = [_state(scene, "requires_action"), _state(scene, "unknown")]
    await window.check(sent, expect("R-PROMPT-37", "", state=IsNot(("requires_action", "idle"))))
    _state(scene, "running")


@probe_scenario("shown/background", "R-BGW-06", "R-BGW-07", versions=(2,))
async def _background(scene: ClientContext, window: StateProbe) -> None:
    """Work goes on behind the session: the list of it is replaced, malformed, and left out."""
    one, two = scene.add_tool_call("One"), scene.add_tool_call("Two")
    items: list[Json] = [{"type": "tool_call", "toolCallId": tool} for tool in (one, two)]
    sent: list[Frame] = []
    for item, tool in zip(items, (one, two), strict=True):
        sent += [_state(scene, "running", background=[item])]
        await window.check(sent, expect("R-BGW-06", "", background=[tool]))
    for more in ({"background": [items[0], {"type": "tool_call"}]}, {}):
        sent = [_state(scene, "running", background=items), _state(scene, "running", **more)]
        await window.check(sent, expect("R-BGW-06", "", background=None))
    sent = [_state(scene, "running", background=items)]
    sent += [_state(scene, "_accord_dreaming", background=items)]
    await window.check(sent, expect("R-BGW-06", "", background=None))
    later: Json = {"type": "_accord_errand", "of": 1}
    sent = [_state(scene, "running", background=[later])]
    await window.check(sent, expect("R-BGW-07", "", background=HasLength(1)))
    _state(scene, "running", background=[])


def _state(scene: ClientContext, state: str, **more: list[Json]) -> Frame:
    return scene.update("state_update", state=state, **more)


SCENES = (_states, _background)
