"""Session states and background work (version 2)."""

from __future__ import annotations

from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import HasLength, IsNot
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import StateProbe, expect
from accord_conformance.traffic.frame import Frame


@probe_scenario("state/states", "R-PROMPT-34", "R-PROMPT-37", versions=(2,))
async def _states(context: ClientContext, probe: StateProbe) -> None:
    """The agent sends an unknown state, and the state `unknown`."""
    sent = [_state(context, "running")]
    await probe.learn()
    sent += [_state(context, "_accord_dreaming")]
    await probe.check(sent, expect("R-PROMPT-34", "", state=IsNot(("idle", "running"))))
    sent = [_state(context, "requires_action"), _state(context, "unknown")]
    await probe.check(sent, expect("R-PROMPT-37", "", state=IsNot(("requires_action", "idle"))))
    _state(context, "running")


@probe_scenario("state/background", "R-BGW-06", "R-BGW-07", versions=(2,))
async def _background(context: ClientContext, probe: StateProbe) -> None:
    """The list of background work is replaced, malformed, and missing."""
    one, two = context.add_tool_call("One"), context.add_tool_call("Two")
    items: list[Json] = [{"type": "tool_call", "toolCallId": tool} for tool in (one, two)]
    sent: list[Frame] = []
    for item, tool in zip(items, (one, two), strict=True):
        sent += [_state(context, "running", background=[item])]
        await probe.check(sent, expect("R-BGW-06", "", background=[tool]))
    for more in ({"background": [items[0], {"type": "tool_call"}]}, {}):
        sent = [_state(context, "running", background=items), _state(context, "running", **more)]
        await probe.check(sent, expect("R-BGW-06", "", background=None))
    sent = [_state(context, "running", background=items)]
    sent += [_state(context, "_accord_dreaming", background=items)]
    await probe.check(sent, expect("R-BGW-06", "", background=None))
    later: Json = {"type": "_accord_errand", "of": 1}
    sent = [_state(context, "running", background=[later])]
    await probe.check(sent, expect("R-BGW-07", "", background=HasLength(1)))
    _state(context, "running", background=[])


def _state(context: ClientContext, state: str, **more: list[Json]) -> Frame:
    return context.update("state_update", state=state, **more)


SCENARIOS = (_states, _background)
