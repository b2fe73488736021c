"""What becomes of tool calls: patches, replaced lists, chunks, and what questions say of them."""

from __future__ import annotations

import os
import sys

from accord.text.lenient_json import is_object
from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.matchers import (
    ContainsInOrder,
    EqualsOrEmpty,
)
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import (
    StateProbe,
    expect,
)

__all__ = ("SCENES",)

_UPDATE = "tool_call_update"
_SAYS = "shown by a terminal"


@probe_scenario("shown/tools", "R-TOOL-06", "R-TOOL-14", versions=(1,))
async def _tools(scene: ClientContext, window: StateProbe) -> None:
    """A tool call's content and places are replaced, and its name is kept."""
    tool = scene.add_tool_call(
        "Lists", content=_parts("A", "B"), locations=_places(scene, "a", "b")
    )
    sent = [scene.agent.last_frame]
    await window.learn()
    sent += [scene.update(_UPDATE, toolCallId=tool, content=_parts("C"))]
    replaced = expect(
        "R-TOOL-06", "toolCalls", tool, content=_parts("C"), locations=_places(scene, "a", "b")
    )
    await window.check(sent, replaced)
    sent += [scene.update(_UPDATE, toolCallId=tool, locations=_places(scene, "c"))]
    replaced = expect(
        "R-TOOL-06", "toolCalls", tool, content=_parts("C"), locations=_places(scene, "c")
    )
    await window.check(sent, replaced)
    sent += [scene.update(_UPDATE, toolCallId=tool, content=[], locations=[])]
    await window.check(sent, expect("R-TOOL-06", "toolCalls", tool, content=None, locations=None))

    tool = scene.add_tool_call("Name", name="first")
    sent = [scene.agent.last_frame]
    await window.learn()
    for more in ({"name": None}, {"title": "Another title"}):
        sent += [scene.update(_UPDATE, toolCallId=tool, **more)]
        await window.check(sent, expect("R-TOOL-14", "toolCalls", tool, name="first"))
    sent += [scene.update(_UPDATE, toolCallId=tool, name="second")]
    await window.check(sent, expect("R-TOOL-14", "toolCalls", tool, name="second"))


@probe_scenario(
    "shown/tool_patches",
    "R-TOOL-07",
    "R-TOOL-08",
    "R-TOOL-10",
    "R-TOOL-15",
    "R-TCAN-02",
    versions=(2,),
)
async def _patches(scene: ClientContext, window: StateProbe) -> None:
    """Tool calls are patched: fields are left out, null or given, and content is appended."""
    title, place = "The title", _places(scene, "a")
    tool = scene.add_tool_call(title, kind="edit", status="in_progress", locations=place)
    sent = [scene.agent.last_frame]
    await window.learn()
    sent += [scene.update(_UPDATE, toolCallId=tool, rawOutput={"any": 1})]
    kept = {"title": title, "kind": "edit", "status": "in_progress", "locations": place}
    await window.check(sent, expect("R-TOOL-08", "toolCalls", tool, **kept))
    cleared = {"title": None, "kind": None, "status": None, "locations": None}
    sent += [scene.update(_UPDATE, toolCallId=tool, **cleared)]
    defaults = {"status": EqualsOrEmpty("pending"), "kind": EqualsOrEmpty("other")}
    blank = {"title": None, "locations": None, **defaults}
    await window.check(sent, expect("R-TOOL-08", "toolCalls", tool, **blank))
    both = _places(scene, "b", "c")
    sent += [scene.update(_UPDATE, toolCallId=tool, title="B", locations=both)]
    await window.check(sent, expect("R-TOOL-08", "toolCalls", tool, title="B", locations=both))
    sent += [scene.update(_UPDATE, toolCallId=tool, locations=_places(scene, "d"))]
    replaced = expect("R-TOOL-08", "toolCalls", tool, locations=_places(scene, "d"))
    await window.check(sent, replaced)

    sent = [scene.update(_UPDATE, toolCallId="shown-unseen", locations=place)]
    unseen = expect("R-TOOL-07", "toolCalls", "shown-unseen", **defaults)
    await window.check(sent, unseen)
    scene.update(_UPDATE, toolCallId="shown-unseen", status="completed")

    tool = scene.add_tool_call("Chunks")
    sent = [_append(scene, tool, "A"), _append(scene, tool, "B")]
    appended = expect("R-TOOL-10", "toolCalls", tool, content=_parts("A", "B"))
    await window.check(sent, appended)
    sent += [scene.update(_UPDATE, toolCallId=tool, content=_parts("C")), _append(scene, tool, "D")]
    appended = expect("R-TOOL-10", "toolCalls", tool, content=_parts("C", "D"))
    await window.check(sent, appended)

    tool = scene.add_tool_call("Name", name="first")
    sent = [scene.agent.last_frame]
    await window.learn()
    sent += [scene.update(_UPDATE, toolCallId=tool, title="Another title")]
    await window.check(sent, expect("R-TOOL-15", "toolCalls", tool, name="first"))
    sent += [scene.update(_UPDATE, toolCallId=tool, name=None)]
    await window.check(sent, expect("R-TOOL-15", "toolCalls", tool, name=None))
    sent += [scene.update(_UPDATE, toolCallId=tool, name="second")]
    await window.check(sent, expect("R-TOOL-15", "toolCalls", tool, name="second"))
    await _capabilities(scene, window)


async def _capabilities(scene: ClientContext, window: StateProbe) -> None:
    offered: Json = {"cancel": {}}
    tool = scene.add_tool_call("Can be cancelled", capabilities=offered)
    sent = [scene.agent.last_frame]
    await window.learn()
    sent += [scene.update(_UPDATE, toolCallId=tool, title="Still so")]
    await window.check(sent, expect("R-TCAN-02", "toolCalls", tool, capabilities=offered))
    nothing: Json = {}
    for other in (nothing, None):
        sent += [
            scene.update(_UPDATE, toolCallId=tool, capabilities=offered),
            scene.update(_UPDATE, toolCallId=tool, capabilities=other),
        ]
        await window.check(sent, expect("R-TCAN-02", "toolCalls", tool, capabilities=None))


@probe_scenario("shown/asked", "R-PERM-06", "R-PERM-10")
async def _asked(scene: ClientContext, window: StateProbe) -> None:
    """A question says something new of a tool call: what is told of the call changes at once."""
    rule = "R-PERM-06" if scene.version == 1 else "R-PERM-10"
    place = _places(scene, "asked")
    scene.add_tool_call("Before the question")
    known = {"title": "As it is asked", "kind": "delete", "locations": place}
    call = scene.request_permission("Asked", details=known)
    tool = _tool_of(call.params)
    await window.check([call], expect(rule, "toolCalls", tool, **known))
    await scene.wait_for_person(call)
    sent = [scene.update(_UPDATE, toolCallId=tool, title="Afterwards")]
    await window.check([call, *sent], expect(rule, "toolCalls", tool, title="Afterwards"))
    if scene.version == 2:
        unseen: Json = {"toolCallId": "shown-asked", "title": "Unseen", "kind": "fetch"}
        subject = {"type": "tool_call", "toolCall": unseen}
        call = scene.request_permission("Asked of the unseen", subject=subject)
        made = expect(rule, "toolCalls", "shown-asked", title="Unseen", kind="fetch")
        await window.check([call], made)
        await scene.wait_for_person(call)
        scene.update(_UPDATE, toolCallId="shown-asked", status="completed")


def _tool_of(params: object) -> str:
    found = params if is_object(params) else {}
    details = found.get("toolCall") or found["subject"]["toolCall"]
    return details["toolCallId"]


@probe_scenario("shown/released", "R-TOOL-18", versions=(1,))
async def _released(scene: ClientContext, window: StateProbe) -> None:
    """A terminal is shown in a tool call, and released."""
    scene.require(scene.supports("terminal"), "the client runs no commands")
    code = f"print({_SAYS!r})"
    params = scene.session_params(command=sys.executable, args=["-c", code])
    made = await scene.call("terminal/create", params)
    ident = made.result.get("terminalId") if is_object(made.result) else None
    scene.require(isinstance(ident, str), f"the client did not start {sys.executable}")
    tool = scene.add_tool_call("A terminal", content=[{"type": "terminal", "terminalId": ident}])
    sent = [made, scene.agent.last_frame]
    await scene.call("terminal/wait_for_exit", scene.session_params(terminalId=ident))
    scene.update(_UPDATE, toolCallId=tool, status="completed")
    anchor = [{"type": "terminal", "terminalId": ident}]
    shown = (
        expect("R-TOOL-18", "terminals", str(ident), output=ContainsInOrder((_SAYS,))),
        expect("R-TOOL-18", "toolCalls", tool, content=anchor),
    )
    await window.check(sent, *shown)
    sent += [await scene.call("terminal/release", scene.session_params(terminalId=ident))]
    await window.check(sent, *shown)


def _append(scene: ClientContext, tool: str, text: str):
    (part,) = _parts(text)
    return scene.update("tool_call_content_chunk", toolCallId=tool, content=part)


def _parts(*texts: str) -> list[Json]:
    return [{"type": "content", "content": fixtures.text_block(text)} for text in texts]


def _places(scene: ClientContext, *names: str) -> list[Json]:
    return [{"path": os.path.join(scene.session.cwd, name)} for name in names]  # noqa: PTH118


SCENES = (_tools, _patches, _asked, _released)
