"""What becomes of compactions, subagents and what sessions say to each other."""

from __future__ import annotations

import os

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import (
    IsNot,
)
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import (
    StateProbe,
    expect,
)
from accord_conformance.traffic.frame import Frame

__all__ = ("SCENES",)

_SUBAGENT = "subagent_update"


@probe_scenario("shown/compactions", "R-COMP-05", "R-COMP-07", "R-COMP-08")
async def _compactions(scene: ClientContext, window: StateProbe) -> None:
    """Compactions get a summary in parts and anew, an error, and a status that nobody knows."""
    known = scene.version == 2 or scene.supports("session", "compaction")
    scene.require(known, "the client takes no compactions")
    sent = [_sum_up(scene, "unseen", "A"), _sum_up(scene, "unseen", "B")]
    begun = expect(
        "R-COMP-08", "compactions", "unseen", status="in_progress", summary=_texts("A", "B")
    )
    await window.check(sent, begun)

    ident = "patched"
    sent = [_compact(scene, ident, summary=_texts("A"))]
    await window.learn()
    sent += [_compact(scene, ident, error="Why")]
    kept = expect("R-COMP-05", "compactions", ident, summary=_texts("A"), error="Why")
    await window.check(sent, kept)
    sent += [_sum_up(scene, ident, "B"), _compact(scene, ident, summary=_texts("C"), error=None)]
    changed = expect("R-COMP-05", "compactions", ident, summary=_texts("C"), error=None)
    await window.check(sent, changed)
    for nothing in (None, _texts()):
        sent = [_compact(scene, ident, summary=_texts("D"))]
        sent += [_compact(scene, ident, summary=nothing)]
        await window.check(sent, expect("R-COMP-05", "compactions", ident, summary=None))

    sent = [_compact(scene, "odd", "_accord_waiting")]
    kept = expect("R-COMP-07", "compactions", "odd", status="_accord_waiting")
    await window.check(sent, kept)


@probe_scenario("shown/subagents", "R-SUBAG-04", "R-SUBAG-06", "R-SUBAG-09", "R-SUBAG-11")
async def _subagents(scene: ClientContext, window: StateProbe) -> None:
    """Subagents are patched, moved, and of unknown activity; messages go to and from them."""
    known = scene.version == 2 or scene.supports("subagents")
    scene.require(known, "the client does not follow subagents")
    child = f"{scene.session.id}-patched"
    here = [os.path.join(scene.session.cwd, name) for name in "abc"]  # noqa: PTH118
    offered: Json = {"cancel": {}}
    roots = here[:2]
    sent = [
        _child(scene, child, title="A subagent", capabilities=offered, additionalDirectories=roots)
    ]
    await window.learn()
    sent += [_child(scene, child, description="At work")]
    kept: Json = {"title": "A subagent", "description": "At work", "capabilities": offered}
    await window.check(
        sent, expect("R-SUBAG-04", "subagents", child, **kept, additionalDirectories=roots)
    )
    sent += [_child(scene, child, title=None, capabilities={}, additionalDirectories=here[2:])]
    replaced: Json = {"title": None, "description": "At work", "capabilities": None}
    await window.check(
        sent, expect("R-SUBAG-04", "subagents", child, **replaced, additionalDirectories=here[2:])
    )
    await _activity(scene, window)
    await _places(scene, window)
    await _between(scene, window)


async def _activity(scene: ClientContext, window: StateProbe) -> None:
    child = f"{scene.session.id}-active"
    sent = [_child(scene, child, title="Works", state={"state": "running"})]
    await window.check(sent, expect("R-SUBAG-06", "subagents", child, state="running"))
    sent += [_child(scene, child, state=None)]
    unsure = IsNot(("running", "idle", "cancelled", "completed"))
    await window.check(sent, expect("R-SUBAG-06", "subagents", child, state=unsure))
    idle: Json = {"state": "idle", "stopReason": "end_turn"}
    sent += [_child(scene, child, state=idle)]
    await window.check(sent, expect("R-SUBAG-06", "subagents", child, title="Works", state="idle"))


async def _places(scene: ClientContext, window: StateProbe) -> None:
    child = f"{scene.session.id}-elsewhere"
    there = os.path.join(scene.session.cwd, "there")  # noqa: PTH118  # as the agent has it
    sent = [_child(scene, child, title="Elsewhere", cwd=there, additionalDirectories=[])]
    given = expect("R-SUBAG-09", "subagents", child, cwd=there, additionalDirectories=None)
    await window.check(sent, given)
    sent += [_child(scene, child, cwd=None, additionalDirectories=[there])]
    inherited = {"cwd": scene.session.cwd, "additionalDirectories": [there]}
    await window.check(sent, expect("R-SUBAG-09", "subagents", child, **inherited))
    sent += [_child(scene, child, additionalDirectories=None)]
    inherited = {
        "cwd": scene.session.cwd,
        "additionalDirectories": list(scene.session.additional_directories),
    }
    await window.check(sent, expect("R-SUBAG-09", "subagents", child, **inherited))


async def _between(scene: ClientContext, window: StateProbe) -> None:
    child, parent, ident = f"{scene.session.id}-spoken-to", scene.session.id, "between"
    _child(scene, child, title="Spoken to")
    sent = [_say(scene, ident, senderSessionId=parent, content=_texts("A"))]
    await window.learn()
    sent += [_say(scene, ident, recipientSessionId=child, recipientMessageId="there")]
    late: Json = {"senderSessionId": parent, "recipientSessionId": child}
    kept = expect(
        "R-SUBAG-11",
        "sessionMessages",
        ident,
        **late,
        recipientMessageId="there",
        content=_texts("A"),
    )
    await window.check(sent, kept)
    chunk = {"messageId": ident, "content": fixtures.text_block("B")}
    sent += [scene.update("session_message_chunk", **chunk)]
    sent += [_say(scene, ident, recipientMessageId=None)]
    grown = expect(
        "R-SUBAG-11",
        "sessionMessages",
        ident,
        **late,
        recipientMessageId=None,
        content=_texts("A", "B"),
    )
    await window.check(sent, grown)


def _compact(
    scene: ClientContext, ident: str, status: str = "in_progress", **more: object
) -> Frame:
    return scene.update("compaction_update", compactionId=ident, status=status, **more)


def _sum_up(scene: ClientContext, ident: str, text: str) -> Frame:
    return scene.update(
        "compaction_summary_chunk", compactionId=ident, content=fixtures.text_block(text)
    )


def _child(scene: ClientContext, child: str, **fields: object) -> Frame:
    return scene.update(_SUBAGENT, sessionId=child, **fields)


def _say(scene: ClientContext, ident: str, **fields: object) -> Frame:
    return scene.update("session_message", messageId=ident, **fields)


def _texts(*texts: str) -> list[Json]:
    return [fixtures.text_block(text) for text in texts]


SCENES = (_compactions, _subagents)
