"""`_meta`, which a client need not keep: it is judged if the client reports it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import HasExactly
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import StateProbe, expect
from accord_conformance.traffic.frame import Frame

_FIRST: Json = {"accord.a": 1, "accord.b": {"x": 1, "y": 2}, "accord.c": "kept"}
_THEN: Json = {"accord.a": None, "accord.b": {"z": 3}, "accord.d": 4}
_PATCHED: Json = {"accord.b": {"z": 3}, "accord.c": "kept", "accord.d": 4}


@probe_scenario("state/meta", "R-MSG-09", "R-EXT-13", "R-DTERM-09", versions=(2,))
async def _meta(context: ClientContext, probe: StateProbe) -> None:
    """Messages, tool calls, terminals and their parts have `_meta`, which is patched."""
    ident = "meta"
    sent = [
        context.update(
            "agent_message", messageId=ident, content=[fixtures.text_block("A")], _meta=_FIRST
        )
    ]
    await probe.learn()
    more = {"messageId": ident, "content": fixtures.text_block("B"), "_meta": {"accord.a": 9}}
    sent += [context.update("agent_message_chunk", **more)]
    await probe.check(sent, expect("R-MSG-09", "messages", ident, _meta=HasExactly(_FIRST)))
    sent += [context.update("agent_message", messageId=ident, _meta=_THEN)]
    await probe.check(sent, expect("R-MSG-09", "messages", ident, _meta=HasExactly(_PATCHED)))

    tool = context.add_tool_call("Has metadata", _meta=_FIRST)
    patch = partial(context.update, "tool_call_update", toolCallId=tool)
    await _patched(probe, "R-EXT-13", "toolCalls", tool, patch)

    own, inner = {"accord.own": 1}, {"accord.inner": 2}
    data = base64.b64encode(b"out").decode()
    sent = [context.update("terminal_update", terminalId=ident, _meta=own)]
    parts: Json = {"output": {"data": data, "_meta": inner}, "exitStatus": {"_meta": inner}}
    sent += [context.update("terminal_update", terminalId=ident, **parts)]
    more = {"terminalId": ident, "data": data, "_meta": inner}
    sent += [context.update("terminal_output_chunk", **more)]
    await probe.check(sent, expect("R-DTERM-09", "terminals", ident, _meta=HasExactly(own)))


async def _patched(
    probe: StateProbe, rule: str, table: str, ident: str, update: Callable[..., Frame]
) -> None:
    await probe.learn()
    sent = [update(title="Has metadata still"), update(_meta={})]
    await probe.check(sent, expect(rule, table, ident, _meta=HasExactly(_FIRST)))
    sent += [update(_meta=_THEN)]
    await probe.check(sent, expect(rule, table, ident, _meta=HasExactly(_PATCHED)))
    sent += [update(_meta=None)]
    await probe.check(sent, expect(rule, table, ident, _meta=None))


@probe_scenario("state/meta-replaced", "R-EXT-14", versions=(1,))
async def _replaced(context: ClientContext, probe: StateProbe) -> None:
    """A compaction and a subagent have `_meta`, which is kept, replaced as a whole, and cleared."""
    if context.supports("session", "compaction"):
        known: Json = {"compactionId": "meta", "status": "in_progress"}
        await _whole(
            probe, "compactions", "meta", partial(context.update, "compaction_update", **known)
        )
    if context.supports("subagents"):
        child = f"{context.session.id}-meta"
        await _whole(
            probe, "subagents", child, partial(context.update, "subagent_update", sessionId=child)
        )
    offered = context.supports("session", "compaction") or context.supports("subagents")
    context.require(offered, "the client supports neither compactions nor subagents")


async def _whole(probe: StateProbe, table: str, ident: str, update: Callable[..., Frame]) -> None:
    rule = "R-EXT-14"
    sent = [update(_meta=_FIRST)]
    await probe.learn()
    sent += [update()]
    await probe.check(sent, expect(rule, table, ident, _meta=HasExactly(_FIRST)))
    sent += [update(_meta={"accord.d": 4})]
    await probe.check(sent, expect(rule, table, ident, _meta=HasExactly({"accord.d": 4})))
    sent += [update(_meta=None)]
    await probe.check(sent, expect(rule, table, ident, _meta=None))


SCENARIOS = (_meta, _replaced)
