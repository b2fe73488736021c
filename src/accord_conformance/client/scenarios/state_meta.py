"""What becomes of `_meta`, which nobody has to keep: it is judged where a client tells of it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial

from accord_conformance.client import fixtures
from accord_conformance.client.context import Json, Scene
from accord_conformance.client.probe_scenario import shows
from accord_conformance.client.state_probe import Exactly, Window, claim
from accord_conformance.traffic.frame import Frame

__all__ = ("SCENES",)

_FIRST: Json = {"accord.a": 1, "accord.b": {"x": 1, "y": 2}, "accord.c": "kept"}
_THEN: Json = {"accord.a": None, "accord.b": {"z": 3}, "accord.d": 4}
_PATCHED: Json = {"accord.b": {"z": 3}, "accord.c": "kept", "accord.d": 4}


@shows("shown/meta", "R-MSG-09", "R-EXT-13", "R-DTERM-09", versions=(2,))
async def _meta(scene: Scene, window: Window) -> None:
    """Messages, tool calls and terminals have `_meta`, which is patched; so have their parts."""
    ident = "meta"
    sent = [
        scene.update("agent_message", messageId=ident, content=[fixtures.text("A")], _meta=_FIRST)
    ]
    await window.learn()
    more = {"messageId": ident, "content": fixtures.text("B"), "_meta": {"accord.a": 9}}
    sent += [scene.update("agent_message_chunk", **more)]
    await window.claims(sent, claim("R-MSG-09", "messages", ident, _meta=Exactly(_FIRST)))
    sent += [scene.update("agent_message", messageId=ident, _meta=_THEN)]
    await window.claims(sent, claim("R-MSG-09", "messages", ident, _meta=Exactly(_PATCHED)))

    tool = scene.tool("Has metadata", _meta=_FIRST)
    patch = partial(scene.update, "tool_call_update", toolCallId=tool)
    await _patched(window, "R-EXT-13", "toolCalls", tool, patch)

    own, inner = {"accord.own": 1}, {"accord.inner": 2}
    data = base64.b64encode(b"out").decode()
    sent = [scene.update("terminal_update", terminalId=ident, _meta=own)]
    parts: Json = {"output": {"data": data, "_meta": inner}, "exitStatus": {"_meta": inner}}
    sent += [scene.update("terminal_update", terminalId=ident, **parts)]
    more = {"terminalId": ident, "data": data, "_meta": inner}
    sent += [scene.update("terminal_output_chunk", **more)]
    await window.claims(sent, claim("R-DTERM-09", "terminals", ident, _meta=Exactly(own)))


async def _patched(
    window: Window, rule: str, table: str, ident: str, update: Callable[..., Frame]
) -> None:
    await window.learn()
    sent = [update(title="Has metadata still"), update(_meta={})]
    await window.claims(sent, claim(rule, table, ident, _meta=Exactly(_FIRST)))
    sent += [update(_meta=_THEN)]
    await window.claims(sent, claim(rule, table, ident, _meta=Exactly(_PATCHED)))
    sent += [update(_meta=None)]
    await window.claims(sent, claim(rule, table, ident, _meta=None))


@shows("shown/meta_replaced", "R-EXT-14", versions=(1,))
async def _replaced(scene: Scene, window: Window) -> None:
    """A compaction and a subagent have `_meta`, which is kept, replaced as a whole, and cleared."""
    if scene.offers_to("session", "compaction"):
        known: Json = {"compactionId": "meta", "status": "in_progress"}
        await _whole(
            window, "compactions", "meta", partial(scene.update, "compaction_update", **known)
        )
    if scene.offers_to("subagents"):
        child = f"{scene.session.id}-meta"
        await _whole(
            window, "subagents", child, partial(scene.update, "subagent_update", sessionId=child)
        )
    offered = scene.offers_to("session", "compaction") or scene.offers_to("subagents")
    scene.needs(offered, "the client takes neither compactions nor subagents")


async def _whole(window: Window, table: str, ident: str, update: Callable[..., Frame]) -> None:
    rule = "R-EXT-14"
    sent = [update(_meta=_FIRST)]
    await window.learn()
    sent += [update()]
    await window.claims(sent, claim(rule, table, ident, _meta=Exactly(_FIRST)))
    sent += [update(_meta={"accord.d": 4})]
    await window.claims(sent, claim(rule, table, ident, _meta=Exactly({"accord.d": 4})))
    sent += [update(_meta=None)]
    await window.claims(sent, claim(rule, table, ident, _meta=None))


SCENES = (_meta, _replaced)
