"""What becomes of tool calls: patches, replaced lists, chunks, and what questions say of them."""

from __future__ import annotations

import os
import sys

from accord.text.lenient_json import is_object
from accord_conformance.client import fixtures
from accord_conformance.client.context import Json, Scene
from accord_conformance.client.probe_scenario import shows
from accord_conformance.client.state_probe import Has, OrNothing, Window, claim

__all__ = ("SCENES",)

_UPDATE = "tool_call_update"
_SAYS = "shown by a terminal"


@shows("shown/tools", "R-TOOL-06", "R-TOOL-14", versions=(1,))
async def _tools(scene: Scene, window: Window) -> None:
    """A tool call's content and places are replaced, and its name is kept."""
    tool = scene.tool("Lists", content=_parts("A", "B"), locations=_places(scene, "a", "b"))
    sent = [scene.posing.last_frame]
    await window.learn()
    sent += [scene.update(_UPDATE, toolCallId=tool, content=_parts("C"))]
    replaced = claim(
        "R-TOOL-06", "toolCalls", tool, content=_parts("C"), locations=_places(scene, "a", "b")
    )
    await window.claims(sent, replaced)
    sent += [scene.update(_UPDATE, toolCallId=tool, locations=_places(scene, "c"))]
    replaced = claim(
        "R-TOOL-06", "toolCalls", tool, content=_parts("C"), locations=_places(scene, "c")
    )
    await window.claims(sent, replaced)
    sent += [scene.update(_UPDATE, toolCallId=tool, content=[], locations=[])]
    await window.claims(sent, claim("R-TOOL-06", "toolCalls", tool, content=None, locations=None))

    tool = scene.tool("Name", name="first")
    sent = [scene.posing.last_frame]
    await window.learn()
    for more in ({"name": None}, {"title": "Another title"}):
        sent += [scene.update(_UPDATE, toolCallId=tool, **more)]
        await window.claims(sent, claim("R-TOOL-14", "toolCalls", tool, name="first"))
    sent += [scene.update(_UPDATE, toolCallId=tool, name="second")]
    await window.claims(sent, claim("R-TOOL-14", "toolCalls", tool, name="second"))


@shows(
    "shown/tool_patches",
    "R-TOOL-07",
    "R-TOOL-08",
    "R-TOOL-10",
    "R-TOOL-15",
    "R-TCAN-02",
    versions=(2,),
)
async def _patches(scene: Scene, window: Window) -> None:
    """Tool calls are patched: fields are left out, null or given, and content is appended."""
    title, place = "The title", _places(scene, "a")
    tool = scene.tool(title, kind="edit", status="in_progress", locations=place)
    sent = [scene.posing.last_frame]
    await window.learn()
    sent += [scene.update(_UPDATE, toolCallId=tool, rawOutput={"any": 1})]
    kept = {"title": title, "kind": "edit", "status": "in_progress", "locations": place}
    await window.claims(sent, claim("R-TOOL-08", "toolCalls", tool, **kept))
    cleared = {"title": None, "kind": None, "status": None, "locations": None}
    sent += [scene.update(_UPDATE, toolCallId=tool, **cleared)]
    defaults = {"status": OrNothing("pending"), "kind": OrNothing("other")}
    blank = {"title": None, "locations": None, **defaults}
    await window.claims(sent, claim("R-TOOL-08", "toolCalls", tool, **blank))
    both = _places(scene, "b", "c")
    sent += [scene.update(_UPDATE, toolCallId=tool, title="B", locations=both)]
    await window.claims(sent, claim("R-TOOL-08", "toolCalls", tool, title="B", locations=both))
    sent += [scene.update(_UPDATE, toolCallId=tool, locations=_places(scene, "d"))]
    replaced = claim("R-TOOL-08", "toolCalls", tool, locations=_places(scene, "d"))
    await window.claims(sent, replaced)

    sent = [scene.update(_UPDATE, toolCallId="shown-unseen", locations=place)]
    unseen = claim("R-TOOL-07", "toolCalls", "shown-unseen", **defaults)
    await window.claims(sent, unseen)
    scene.update(_UPDATE, toolCallId="shown-unseen", status="completed")

    tool = scene.tool("Chunks")
    sent = [_append(scene, tool, "A"), _append(scene, tool, "B")]
    appended = claim("R-TOOL-10", "toolCalls", tool, content=_parts("A", "B"))
    await window.claims(sent, appended)
    sent += [scene.update(_UPDATE, toolCallId=tool, content=_parts("C")), _append(scene, tool, "D")]
    appended = claim("R-TOOL-10", "toolCalls", tool, content=_parts("C", "D"))
    await window.claims(sent, appended)

    tool = scene.tool("Name", name="first")
    sent = [scene.posing.last_frame]
    await window.learn()
    sent += [scene.update(_UPDATE, toolCallId=tool, title="Another title")]
    await window.claims(sent, claim("R-TOOL-15", "toolCalls", tool, name="first"))
    sent += [scene.update(_UPDATE, toolCallId=tool, name=None)]
    await window.claims(sent, claim("R-TOOL-15", "toolCalls", tool, name=None))
    sent += [scene.update(_UPDATE, toolCallId=tool, name="second")]
    await window.claims(sent, claim("R-TOOL-15", "toolCalls", tool, name="second"))
    await _capabilities(scene, window)


async def _capabilities(scene: Scene, window: Window) -> None:
    offered: Json = {"cancel": {}}
    tool = scene.tool("Can be cancelled", capabilities=offered)
    sent = [scene.posing.last_frame]
    await window.learn()
    sent += [scene.update(_UPDATE, toolCallId=tool, title="Still so")]
    await window.claims(sent, claim("R-TCAN-02", "toolCalls", tool, capabilities=offered))
    nothing: Json = {}
    for other in (nothing, None):
        sent += [
            scene.update(_UPDATE, toolCallId=tool, capabilities=offered),
            scene.update(_UPDATE, toolCallId=tool, capabilities=other),
        ]
        await window.claims(sent, claim("R-TCAN-02", "toolCalls", tool, capabilities=None))


@shows("shown/asked", "R-PERM-06", "R-PERM-10")
async def _asked(scene: Scene, window: Window) -> None:
    """A question says something new of a tool call: what is told of the call changes at once."""
    rule = "R-PERM-06" if scene.version == 1 else "R-PERM-10"
    place = _places(scene, "asked")
    scene.tool("Before the question")
    known = {"title": "As it is asked", "kind": "delete", "locations": place}
    call = scene.permission("Asked", details=known)
    tool = _tool_of(call.params)
    await window.claims([call], claim(rule, "toolCalls", tool, **known))
    await scene.person(call)
    sent = [scene.update(_UPDATE, toolCallId=tool, title="Afterwards")]
    await window.claims([call, *sent], claim(rule, "toolCalls", tool, title="Afterwards"))
    if scene.version == 2:
        unseen: Json = {"toolCallId": "shown-asked", "title": "Unseen", "kind": "fetch"}
        subject = {"type": "tool_call", "toolCall": unseen}
        call = scene.permission("Asked of the unseen", subject=subject)
        made = claim(rule, "toolCalls", "shown-asked", title="Unseen", kind="fetch")
        await window.claims([call], made)
        await scene.person(call)
        scene.update(_UPDATE, toolCallId="shown-asked", status="completed")


def _tool_of(params: object) -> str:
    found = params if is_object(params) else {}
    details = found.get("toolCall") or found["subject"]["toolCall"]
    return details["toolCallId"]


@shows("shown/released", "R-TOOL-18", versions=(1,))
async def _released(scene: Scene, window: Window) -> None:
    """A terminal is shown in a tool call, and released."""
    scene.needs(scene.offers_to("terminal"), "the client runs no commands")
    code = f"print({_SAYS!r})"
    params = scene.here(command=sys.executable, args=["-c", code])
    made = await scene.ask("terminal/create", params)
    ident = made.result.get("terminalId") if is_object(made.result) else None
    scene.needs(isinstance(ident, str), f"the client did not start {sys.executable}")
    tool = scene.tool("A terminal", content=[{"type": "terminal", "terminalId": ident}])
    sent = [made, scene.posing.last_frame]
    await scene.ask("terminal/wait_for_exit", scene.here(terminalId=ident))
    scene.update(_UPDATE, toolCallId=tool, status="completed")
    anchor = [{"type": "terminal", "terminalId": ident}]
    shown = (
        claim("R-TOOL-18", "terminals", str(ident), output=Has((_SAYS,))),
        claim("R-TOOL-18", "toolCalls", tool, content=anchor),
    )
    await window.claims(sent, *shown)
    sent += [await scene.ask("terminal/release", scene.here(terminalId=ident))]
    await window.claims(sent, *shown)


def _append(scene: Scene, tool: str, text: str):
    (part,) = _parts(text)
    return scene.update("tool_call_content_chunk", toolCallId=tool, content=part)


def _parts(*texts: str) -> list[Json]:
    return [{"type": "content", "content": fixtures.text(text)} for text in texts]


def _places(scene: Scene, *names: str) -> list[Json]:
    return [{"path": os.path.join(scene.session.cwd, name)} for name in names]  # noqa: PTH118


SCENES = (_tools, _patches, _asked, _released)
