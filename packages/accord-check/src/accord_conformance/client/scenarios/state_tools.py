"""Scenarios with the state probe: tool calls, terminals, subagents, compactions."""

from __future__ import annotations

import base64
import os
import sys

from accord.text.lenient_json import is_object
from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.scenarios.state_session import probe_scenario
from accord_conformance.client.state_probe import (
    IS_PRESENT,
    ContainsInOrder,
    EqualsOrEmpty,
    IsNot,
    StateProbe,
    expect,
)
from accord_conformance.traffic.message import Frame

# Tool calls: patches, replaced lists, chunks, and permission requests about them.

_TOOL_UPDATE = "tool_call_update"
_SAYS = "shown by a terminal"


@probe_scenario("state/tools", "R-TOOL-06", "R-TOOL-14", versions=(1,))
async def _tools(context: ClientContext, probe: StateProbe) -> None:
    """The content and locations of a tool call are replaced, and its name is kept."""
    tool = context.add_tool_call(
        "Lists", content=_parts("A", "B"), locations=_places(context, "a", "b")
    )
    sent = [context.agent.last_frame]
    await probe.learn()
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, content=_parts("C"))]
    replaced = expect(
        "R-TOOL-06", "toolCalls", tool, content=_parts("C"), locations=_places(context, "a", "b")
    )
    await probe.check(sent, replaced)
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, locations=_places(context, "c"))]
    replaced = expect(
        "R-TOOL-06", "toolCalls", tool, content=_parts("C"), locations=_places(context, "c")
    )
    await probe.check(sent, replaced)
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, content=[], locations=[])]
    await probe.check(sent, expect("R-TOOL-06", "toolCalls", tool, content=None, locations=None))

    tool = context.add_tool_call("Name", name="first")
    sent = [context.agent.last_frame]
    await probe.learn()
    for more in ({"name": None}, {"title": "Another title"}):
        sent += [context.update(_TOOL_UPDATE, toolCallId=tool, **more)]
        await probe.check(sent, expect("R-TOOL-14", "toolCalls", tool, name="first"))
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, name="second")]
    await probe.check(sent, expect("R-TOOL-14", "toolCalls", tool, name="second"))


@probe_scenario(
    "state/tool-patches",
    "R-TOOL-07",
    "R-TOOL-08",
    "R-TOOL-10",
    "R-TOOL-15",
    "R-TCAN-02",
    versions=(2,),
)
async def _patches(context: ClientContext, probe: StateProbe) -> None:
    """Tool calls are patched: fields are left out, null or given, and content is appended."""
    title, place = "The title", _places(context, "a")
    tool = context.add_tool_call(title, kind="edit", status="in_progress", locations=place)
    sent = [context.agent.last_frame]
    await probe.learn()
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, rawOutput={"any": 1})]
    kept = {"title": title, "kind": "edit", "status": "in_progress", "locations": place}
    await probe.check(sent, expect("R-TOOL-08", "toolCalls", tool, **kept))
    cleared = {"title": None, "kind": None, "status": None, "locations": None}
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, **cleared)]
    defaults = {"status": EqualsOrEmpty("pending"), "kind": EqualsOrEmpty("other")}
    blank = {"title": None, "locations": None, **defaults}
    await probe.check(sent, expect("R-TOOL-08", "toolCalls", tool, **blank))
    both = _places(context, "b", "c")
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, title="B", locations=both)]
    await probe.check(sent, expect("R-TOOL-08", "toolCalls", tool, title="B", locations=both))
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, locations=_places(context, "d"))]
    replaced = expect("R-TOOL-08", "toolCalls", tool, locations=_places(context, "d"))
    await probe.check(sent, replaced)

    sent = [context.update(_TOOL_UPDATE, toolCallId="shown-unseen", locations=place)]
    unseen = expect("R-TOOL-07", "toolCalls", "shown-unseen", **defaults)
    await probe.check(sent, unseen)
    context.update(_TOOL_UPDATE, toolCallId="shown-unseen", status="completed")

    tool = context.add_tool_call("Chunks")
    sent = [_append(context, tool, "A"), _append(context, tool, "B")]
    appended = expect("R-TOOL-10", "toolCalls", tool, content=_parts("A", "B"))
    await probe.check(sent, appended)
    sent += [
        context.update(_TOOL_UPDATE, toolCallId=tool, content=_parts("C")),
        _append(context, tool, "D"),
    ]
    appended = expect("R-TOOL-10", "toolCalls", tool, content=_parts("C", "D"))
    await probe.check(sent, appended)

    tool = context.add_tool_call("Name", name="first")
    sent = [context.agent.last_frame]
    await probe.learn()
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, title="Another title")]
    await probe.check(sent, expect("R-TOOL-15", "toolCalls", tool, name="first"))
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, name=None)]
    await probe.check(sent, expect("R-TOOL-15", "toolCalls", tool, name=None))
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, name="second")]
    await probe.check(sent, expect("R-TOOL-15", "toolCalls", tool, name="second"))
    await _capabilities(context, probe)


async def _capabilities(context: ClientContext, probe: StateProbe) -> None:
    offered: Json = {"cancel": {}}
    tool = context.add_tool_call("Can be cancelled", capabilities=offered)
    sent = [context.agent.last_frame]
    await probe.learn()
    sent += [context.update(_TOOL_UPDATE, toolCallId=tool, title="Still so")]
    await probe.check(sent, expect("R-TCAN-02", "toolCalls", tool, capabilities=offered))
    nothing: Json = {}
    for other in (nothing, None):
        sent += [
            context.update(_TOOL_UPDATE, toolCallId=tool, capabilities=offered),
            context.update(_TOOL_UPDATE, toolCallId=tool, capabilities=other),
        ]
        await probe.check(sent, expect("R-TCAN-02", "toolCalls", tool, capabilities=None))


@probe_scenario("state/asked", "R-PERM-06", "R-PERM-10")
async def _asked(context: ClientContext, probe: StateProbe) -> None:
    """A permission request changes its tool call at once."""
    rule = "R-PERM-06" if context.version == 1 else "R-PERM-10"
    place = _places(context, "asked")
    context.add_tool_call("Before the question")
    known = {"title": "As it is asked", "kind": "delete", "locations": place}
    call = context.request_permission("Asked", details=known)
    tool = _tool_of(call.params)
    await probe.check([call], expect(rule, "toolCalls", tool, **known))
    await context.wait_for_person(call)
    sent = [context.update(_TOOL_UPDATE, toolCallId=tool, title="Afterwards")]
    await probe.check([call, *sent], expect(rule, "toolCalls", tool, title="Afterwards"))
    if context.version == 2:
        unseen: Json = {"toolCallId": "shown-asked", "title": "Unseen", "kind": "fetch"}
        subject = {"type": "tool_call", "toolCall": unseen}
        call = context.request_permission("Asked of the unseen", subject=subject)
        made = expect(rule, "toolCalls", "shown-asked", title="Unseen", kind="fetch")
        await probe.check([call], made)
        await context.wait_for_person(call)
        context.update(_TOOL_UPDATE, toolCallId="shown-asked", status="completed")


def _tool_of(params: object) -> str:
    found = params if is_object(params) else {}
    details = found.get("toolCall") or found["subject"]["toolCall"]
    return details["toolCallId"]


@probe_scenario("state/released", "R-TOOL-18", versions=(1,))
async def _released(context: ClientContext, probe: StateProbe) -> None:
    """A terminal is shown in a tool call, and released."""
    context.require(context.supports("terminal"), "the client does not support terminals")
    code = f"print({_SAYS!r})"
    params = context.session_params(command=sys.executable, args=["-c", code])
    made = await context.call("terminal/create", params)
    ident = made.result.get("terminalId") if is_object(made.result) else None
    context.require(isinstance(ident, str), f"the client did not start {sys.executable}")
    tool = context.add_tool_call("A terminal", content=[{"type": "terminal", "terminalId": ident}])
    sent = [made, context.agent.last_frame]
    await context.call("terminal/wait_for_exit", context.session_params(terminalId=ident))
    context.update(_TOOL_UPDATE, toolCallId=tool, status="completed")
    anchor = [{"type": "terminal", "terminalId": ident}]
    shown = (
        expect("R-TOOL-18", "terminals", str(ident), output=ContainsInOrder((_SAYS,))),
        expect("R-TOOL-18", "toolCalls", tool, content=anchor),
    )
    await probe.check(sent, *shown)
    sent += [await context.call("terminal/release", context.session_params(terminalId=ident))]
    await probe.check(sent, *shown)


def _append(context: ClientContext, tool: str, text: str):
    (part,) = _parts(text)
    return context.update("tool_call_content_chunk", toolCallId=tool, content=part)


def _parts(*texts: str) -> list[Json]:
    return [{"type": "content", "content": fixtures.text_block(text)} for text in texts]


def _places(context: ClientContext, *names: str) -> list[Json]:
    return [{"path": os.path.join(context.session.cwd, name)} for name in names]  # noqa: PTH118


STATE_TOOL_CALLS = (_tools, _patches, _asked, _released)


# Terminals of the agent (version 2).

_TERMINAL_UPDATE = "terminal_update"


@probe_scenario(
    "state/terminals",
    "R-DTERM-02",
    "R-DTERM-03",
    "R-DTERM-05",
    "R-DTERM-06",
    "R-DTERM-07",
    "R-DTERM-08",
    versions=(2,),
)
async def _terminals(context: ClientContext, probe: StateProbe) -> None:
    """Terminals are reported before and after they are shown, patched, get output, and exit."""
    for order in ("first", "last"):
        await _anchored(context, probe, f"anchor-{order}", anchor_first=order == "first")

    ident = "patched"
    here = os.path.join(context.session.cwd, "here")  # noqa: PTH118  # the agent's path
    known: Json = {"command": "make all", "cwd": here, "size": {"cols": 80, "rows": 24}}
    sent = [_terminal(context, ident, **known)]
    await probe.learn()
    sent += [_terminal(context, ident)]
    await probe.check(sent, expect("R-DTERM-03", "terminals", ident, **known))
    sent += [_terminal(context, ident, command="make", size=None)]
    changed = expect("R-DTERM-03", "terminals", ident, command="make", cwd=here, size=None)
    await probe.check(sent, changed)
    sent += [_terminal(context, ident, command=None, cwd=None)]
    await probe.check(sent, expect("R-DTERM-03", "terminals", ident, command=None, cwd=None))

    ident = "replaced"
    sent = [_print(context, ident, b"old"), _terminal(context, ident, output=_data(b"new"))]
    await probe.check(sent, expect("R-DTERM-05", "terminals", ident, output="new"))
    sent += [_print(context, ident, b"er")]
    await probe.check(sent, expect("R-DTERM-05", "terminals", ident, output="newer"))
    await _decoded(context, probe)
    await _ended(context, probe)


async def _anchored(
    context: ClientContext, probe: StateProbe, ident: str, *, anchor_first: bool
) -> None:
    anchor: Json = {"type": "terminal", "terminalId": ident}
    sent: list[Frame] = []
    if not anchor_first:
        sent += [_terminal(context, ident, command="make"), _print(context, ident, b"early")]
    tool = context.add_tool_call("Shows a terminal", kind="execute", content=[anchor])
    sent += [context.agent.last_frame]
    if anchor_first:
        sent += [_print(context, ident, b"early"), _terminal(context, ident, command="make")]
    await probe.check(
        sent,
        expect("R-DTERM-02", "terminals", ident, output="early"),
        expect("R-DTERM-02", "toolCalls", tool, content=[anchor]),
    )


async def _decoded(context: ClientContext, probe: StateProbe) -> None:
    # Each of them ends with padding, so the two together are not valid base64.
    sent = [_print(context, "chunks", b"a"), _print(context, "chunks", b"b")]
    await probe.check(sent, expect("R-DTERM-06", "terminals", "chunks", output="ab"))
    split = "ä".encode()
    parts = (b"<", split[:1], split[1:] + b">", b"\xff", b"and on")
    sent = [_print(context, "split", part) for part in parts]
    survived = expect("R-DTERM-07", "terminals", "split", output=ContainsInOrder(("<ä>", "and on")))
    await probe.check(sent, survived)


async def _ended(context: ClientContext, probe: StateProbe) -> None:
    sent: list[Frame] = []
    for number, status in enumerate(({"exitCode": 1}, {})):
        ident = f"ended-{number}"
        anchor: Json = {"type": "terminal", "terminalId": ident}
        tool = context.add_tool_call(
            "Goes on", kind="execute", status="in_progress", content=[anchor]
        )
        sent += [context.agent.last_frame, _terminal(context, ident, exitStatus=status)]
        await probe.check(
            sent,
            expect("R-DTERM-08", "terminals", ident, exitStatus=IS_PRESENT),
            expect("R-DTERM-08", "toolCalls", tool, status="in_progress"),
        )


def _terminal(context: ClientContext, ident: str, **fields: object) -> Frame:
    return context.update(_TERMINAL_UPDATE, terminalId=ident, **fields)


def _print(context: ClientContext, ident: str, data: bytes) -> Frame:
    return context.update("terminal_output_chunk", terminalId=ident, **_data(data))


def _data(data: bytes) -> Json:
    return {"data": base64.b64encode(data).decode()}


STATE_TERMINALS = (_terminals,)


# Compactions, subagents, and messages between sessions.

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
    await _subagent_places(context, probe)
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


async def _subagent_places(context: ClientContext, probe: StateProbe) -> None:
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


STATE_SUBAGENTS = (_compactions, _subagents)
