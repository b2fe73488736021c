"""Compactions, subagents, and messages between sessions."""

from __future__ import annotations

import os

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import IsNot
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import StateProbe, expect
from accord_conformance.traffic.frame import Frame

_SUBAGENT = "subagent_update"


@probe_scenario("state/compactions", "R-COMP-05", "R-COMP-07", "R-COMP-08")
async def _compactions(context: ClientContext, probe: StateProbe) -> None:
    """Compactions get a summary in chunks and as a whole, an error, and an unknown status."""
    is_supported = context.version == 2 or context.supports("session", "compaction")
    context.require(is_supported, "the client does not support compactions")
    sent = [_sum_up(context, "unseen", "A"), _sum_up(context, "unseen", "B")]
    begun = expect(
        "R-COMP-08", "compactions", "unseen", status="in_progress", summary=_texts("A", "B")
    )
    await probe.check(sent, begun)

    ident = "patched"
    sent = [_compact(context, ident, summary=_texts("A"))]
    await probe.learn()
    sent += [_compact(context, ident, error="Why")]
    kept = expect("R-COMP-05", "compactions", ident, summary=_texts("A"), error="Why")
    await probe.check(sent, kept)
    sent += [
        _sum_up(context, ident, "B"),
        _compact(context, ident, summary=_texts("C"), error=None),
    ]
    changed = expect("R-COMP-05", "compactions", ident, summary=_texts("C"), error=None)
    await probe.check(sent, changed)
    for nothing in (None, _texts()):
        sent = [_compact(context, ident, summary=_texts("D"))]
        sent += [_compact(context, ident, summary=nothing)]
        await probe.check(sent, expect("R-COMP-05", "compactions", ident, summary=None))

    sent = [_compact(context, "odd", "_accord_waiting")]
    kept = expect("R-COMP-07", "compactions", "odd", status="_accord_waiting")
    await probe.check(sent, kept)


@probe_scenario("state/subagents", "R-SUBAG-04", "R-SUBAG-06", "R-SUBAG-09", "R-SUBAG-11")
async def _subagents(context: ClientContext, probe: StateProbe) -> None:
    """Subagents are patched and moved, have an unknown state, and exchange messages."""
    is_supported = context.version == 2 or context.supports("subagents")
    context.require(is_supported, "the client does not support subagents")
    child = f"{context.session.id}-patched"
    here = [os.path.join(context.session.cwd, name) for name in "abc"]  # noqa: PTH118
    offered: Json = {"cancel": {}}
    roots = here[:2]
    sent = [
        _child(
            context, child, title="A subagent", capabilities=offered, additionalDirectories=roots
        )
    ]
    await probe.learn()
    sent += [_child(context, child, description="At work")]
    kept: Json = {"title": "A subagent", "description": "At work", "capabilities": offered}
    await probe.check(
        sent, expect("R-SUBAG-04", "subagents", child, **kept, additionalDirectories=roots)
    )
    sent += [_child(context, child, title=None, capabilities={}, additionalDirectories=here[2:])]
    replaced: Json = {"title": None, "description": "At work", "capabilities": None}
    await probe.check(
        sent, expect("R-SUBAG-04", "subagents", child, **replaced, additionalDirectories=here[2:])
    )
    await _activity(context, probe)
    await _places(context, probe)
    await _between(context, probe)


async def _activity(context: ClientContext, probe: StateProbe) -> None:
    child = f"{context.session.id}-active"
    sent = [_child(context, child, title="Works", state={"state": "running"})]
    await probe.check(sent, expect("R-SUBAG-06", "subagents", child, state="running"))
    sent += [_child(context, child, state=None)]
    unsure = IsNot(("running", "idle", "cancelled", "completed"))
    await probe.check(sent, expect("R-SUBAG-06", "subagents", child, state=unsure))
    idle: Json = {"state": "idle", "stopReason": "end_turn"}
    sent += [_child(context, child, state=idle)]
    await probe.check(sent, expect("R-SUBAG-06", "subagents", child, title="Works", state="idle"))


async def _places(context: ClientContext, probe: StateProbe) -> None:
    child = f"{context.session.id}-elsewhere"
    there = os.path.join(context.session.cwd, "there")  # noqa: PTH118  # the agent's path
    sent = [_child(context, child, title="Elsewhere", cwd=there, additionalDirectories=[])]
    given = expect("R-SUBAG-09", "subagents", child, cwd=there, additionalDirectories=None)
    await probe.check(sent, given)
    sent += [_child(context, child, cwd=None, additionalDirectories=[there])]
    inherited = {"cwd": context.session.cwd, "additionalDirectories": [there]}
    await probe.check(sent, expect("R-SUBAG-09", "subagents", child, **inherited))
    sent += [_child(context, child, additionalDirectories=None)]
    inherited = {
        "cwd": context.session.cwd,
        "additionalDirectories": list(context.session.additional_directories),
    }
    await probe.check(sent, expect("R-SUBAG-09", "subagents", child, **inherited))


async def _between(context: ClientContext, probe: StateProbe) -> None:
    child, parent, ident = f"{context.session.id}-spoken-to", context.session.id, "between"
    _child(context, child, title="Spoken to")
    sent = [_say(context, ident, senderSessionId=parent, content=_texts("A"))]
    await probe.learn()
    sent += [_say(context, ident, recipientSessionId=child, recipientMessageId="there")]
    late: Json = {"senderSessionId": parent, "recipientSessionId": child}
    kept = expect(
        "R-SUBAG-11",
        "sessionMessages",
        ident,
        **late,
        recipientMessageId="there",
        content=_texts("A"),
    )
    await probe.check(sent, kept)
    chunk = {"messageId": ident, "content": fixtures.text_block("B")}
    sent += [context.update("session_message_chunk", **chunk)]
    sent += [_say(context, ident, recipientMessageId=None)]
    grown = expect(
        "R-SUBAG-11",
        "sessionMessages",
        ident,
        **late,
        recipientMessageId=None,
        content=_texts("A", "B"),
    )
    await probe.check(sent, grown)


def _compact(
    context: ClientContext, ident: str, status: str = "in_progress", **more: object
) -> Frame:
    return context.update("compaction_update", compactionId=ident, status=status, **more)


def _sum_up(context: ClientContext, ident: str, text: str) -> Frame:
    return context.update(
        "compaction_summary_chunk", compactionId=ident, content=fixtures.text_block(text)
    )


def _child(context: ClientContext, child: str, **fields: object) -> Frame:
    return context.update(_SUBAGENT, sessionId=child, **fields)


def _say(context: ClientContext, ident: str, **fields: object) -> Frame:
    return context.update("session_message", messageId=ident, **fields)


def _texts(*texts: str) -> list[Json]:
    return [fixtures.text_block(text) for text in texts]


SCENARIOS = (_compactions, _subagents)
