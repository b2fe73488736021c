"""What a session is doing, and what goes on behind it (version 2)."""

from __future__ import annotations

from accord_conformance.client.context import Json, Scene
from accord_conformance.client.probe_scenario import shows
from accord_conformance.client.state_probe import Many, Not, Window, claim
from accord_conformance.traffic.frame import Frame

__all__ = ("SCENES",)


@shows("shown/states", "R-PROMPT-34", "R-PROMPT-37", versions=(2,))
async def _states(scene: Scene, window: Window) -> None:
    """The state is one that nobody knows, and one that the agent does not know itself."""
    sent = [_state(scene, "running")]
    await window.learn()
    sent += [_state(scene, "_accord_dreaming")]
    await window.claims(sent, claim("R-PROMPT-34", "", state=Not(("idle", "running"))))
    sent = [_state(scene, "requires_action"), _state(scene, "unknown")]
    await window.claims(sent, claim("R-PROMPT-37", "", state=Not(("requires_action", "idle"))))
    _state(scene, "running")


@shows("shown/background", "R-BGW-06", "R-BGW-07", versions=(2,))
async def _background(scene: Scene, window: Window) -> None:
    """Work goes on behind the session: the list of it is replaced, malformed, and left out."""
    one, two = scene.tool("One"), scene.tool("Two")
    items: list[Json] = [{"type": "tool_call", "toolCallId": tool} for tool in (one, two)]
    sent: list[Frame] = []
    for item, tool in zip(items, (one, two), strict=True):
        sent += [_state(scene, "running", background=[item])]
        await window.claims(sent, claim("R-BGW-06", "", background=[tool]))
    for more in ({"background": [items[0], {"type": "tool_call"}]}, {}):
        sent = [_state(scene, "running", background=items), _state(scene, "running", **more)]
        await window.claims(sent, claim("R-BGW-06", "", background=None))
    sent = [_state(scene, "running", background=items)]
    sent += [_state(scene, "_accord_dreaming", background=items)]
    await window.claims(sent, claim("R-BGW-06", "", background=None))
    later: Json = {"type": "_accord_errand", "of": 1}
    sent = [_state(scene, "running", background=[later])]
    await window.claims(sent, claim("R-BGW-07", "", background=Many(1)))
    _state(scene, "running", background=[])


def _state(scene: Scene, state: str, **more: list[Json]) -> Frame:
    return scene.update("state_update", state=state, **more)


SCENES = (_states, _background)
