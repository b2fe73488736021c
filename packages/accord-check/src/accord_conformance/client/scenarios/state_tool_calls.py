"""Tool calls: patches, replaced lists, chunks, and permission requests about them."""

from __future__ import annotations

import os
import sys

from accord.text.lenient_json import is_object
from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import ContainsInOrder, EqualsOrEmpty
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import StateProbe, expect

_UPDATE = "tool_call_update"
_SAYS = "shown by a terminal"


@probe_scenario("state/tools", "R-TOOL-06", "R-TOOL-14", versions=(1,))
async def _tools(context: ClientContext, probe: StateProbe) -> None:
    """The content and locations of a tool call are replaced, and its name is kept."""
    tool = context.add_tool_call(
        "Lists", content=_parts("A", "B"), locations=_places(context, "a", "b")
    )
    sent = [context.agent.last_frame]
    await probe.learn()
    sent += [context.update(_UPDATE, toolCallId=tool, content=_parts("C"))]
    replaced = expect(
        "R-TOOL-06", "toolCalls", tool, content=_parts("C"), locations=_places(context, "a", "b")
    )
    await probe.check(sent, replaced)
    sent += [context.update(_UPDATE, toolCallId=tool, locations=_places(context, "c"))]
    replaced = expect(
        "R-TOOL-06", "toolCalls", tool, content=_parts("C"), locations=_places(context, "c")
    )
    await probe.check(sent, replaced)
    sent += [context.update(_UPDATE, toolCallId=tool, content=[], locations=[])]
    await probe.check(sent, expect("R-TOOL-06", "toolCalls", tool, content=None, locations=None))

    tool = context.add_tool_call("Name", name="first")
    sent = [context.agent.last_frame]
    await probe.learn()
    for more in ({"name": None}, {"title": "Another title"}):
        sent += [context.update(_UPDATE, toolCallId=tool, **more)]
        await probe.check(sent, expect("R-TOOL-14", "toolCalls", tool, name="first"))
    sent += [context.update(_UPDATE, toolCallId=tool, name="second")]
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
    sent += [context.update(_UPDATE, toolCallId=tool, rawOutput={"any": 1})]
    kept = {"title": title, "kind": "edit", "status": "in_progress", "locations": place}
    await probe.check(sent, expect("R-TOOL-08", "toolCalls", tool, **kept))
    cleared = {"title": None, "kind": None, "status": None, "locations": None}
    sent += [context.update(_UPDATE, toolCallId=tool, **cleared)]
    defaults = {"status": EqualsOrEmpty("pending"), "kind": EqualsOrEmpty("other")}
    blank = {"title": None, "locations": None, **defaults}
    await probe.check(sent, expect("R-TOOL-08", "toolCalls", tool, **blank))
    both = _places(context, "b", "c")
    sent += [context.update(_UPDATE, toolCallId=tool, title="B", locations=both)]
    await probe.check(sent, expect("R-TOOL-08", "toolCalls", tool, title="B", locations=both))
    sent += [context.update(_UPDATE, toolCallId=tool, locations=_places(context, "d"))]
    replaced = expect("R-TOOL-08", "toolCalls", tool, locations=_places(context, "d"))
    await probe.check(sent, replaced)

    sent = [context.update(_UPDATE, toolCallId="shown-unseen", locations=place)]
    unseen = expect("R-TOOL-07", "toolCalls", "shown-unseen", **defaults)
    await probe.check(sent, unseen)
    context.update(_UPDATE, toolCallId="shown-unseen", status="completed")

    tool = context.add_tool_call("Chunks")
    sent = [_append(context, tool, "A"), _append(context, tool, "B")]
    appended = expect("R-TOOL-10", "toolCalls", tool, content=_parts("A", "B"))
    await probe.check(sent, appended)
    sent += [
        context.update(_UPDATE, toolCallId=tool, content=_parts("C")),
        _append(context, tool, "D"),
    ]
    appended = expect("R-TOOL-10", "toolCalls", tool, content=_parts("C", "D"))
    await probe.check(sent, appended)

    tool = context.add_tool_call("Name", name="first")
    sent = [context.agent.last_frame]
    await probe.learn()
    sent += [context.update(_UPDATE, toolCallId=tool, title="Another title")]
    await probe.check(sent, expect("R-TOOL-15", "toolCalls", tool, name="first"))
    sent += [context.update(_UPDATE, toolCallId=tool, name=None)]
    await probe.check(sent, expect("R-TOOL-15", "toolCalls", tool, name=None))
    sent += [context.update(_UPDATE, toolCallId=tool, name="second")]
    await probe.check(sent, expect("R-TOOL-15", "toolCalls", tool, name="second"))
    await _capabilities(context, probe)


async def _capabilities(context: ClientContext, probe: StateProbe) -> None:
    offered: Json = {"cancel": {}}
    tool = context.add_tool_call("Can be cancelled", capabilities=offered)
    sent = [context.agent.last_frame]
    await probe.learn()
    sent += [context.update(_UPDATE, toolCallId=tool, title="Still so")]
    await probe.check(sent, expect("R-TCAN-02", "toolCalls", tool, capabilities=offered))
    nothing: Json = {}
    for other in (nothing, None):
        sent += [
            context.update(_UPDATE, toolCallId=tool, capabilities=offered),
            context.update(_UPDATE, toolCallId=tool, capabilities=other),
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
    sent = [context.update(_UPDATE, toolCallId=tool, title="Afterwards")]
    await probe.check([call, *sent], expect(rule, "toolCalls", tool, title="Afterwards"))
    if context.version == 2:
        unseen: Json = {"toolCallId": "shown-asked", "title": "Unseen", "kind": "fetch"}
        subject = {"type": "tool_call", "toolCall": unseen}
        call = context.request_permission("Asked of the unseen", subject=subject)
        made = expect(rule, "toolCalls", "shown-asked", title="Unseen", kind="fetch")
        await probe.check([call], made)
        await context.wait_for_person(call)
        context.update(_UPDATE, toolCallId="shown-asked", status="completed")


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
    context.update(_UPDATE, toolCallId=tool, status="completed")
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


SCENARIOS = (_tools, _patches, _asked, _released)
