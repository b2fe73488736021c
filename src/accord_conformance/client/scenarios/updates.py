"""What a session tells: unknown kinds, malformed parts, things out of order, a great deal."""

from __future__ import annotations

import base64

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, ClientGone, Json
from accord_conformance.client.web_server import WebServer
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.frame import Frame

__all__ = ("SCENES",)

_IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mMwTjuDFTEMLQkAuYZZQW4mhPwAAAAASUVORK5C"
    "YII="
)
_SOUND = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="


@scenario("updates/content", "R-CONT-03")
async def _content(scene: ClientContext) -> None:
    """Says text, an image, a sound, a link and resources, whatever prompts may have."""
    resource = {"uri": "accord:///note.txt", "text": "A note.\n", "mimeType": "text/plain"}
    blocks: list[Json] = [
        {"type": "image", "data": _IMAGE, "mimeType": "image/png"},
        {"type": "audio", "data": _SOUND, "mimeType": "audio/wav"},
        {"type": "resource", "resource": resource},
        {"type": "resource_link", "name": "a.txt", "uri": "https://example.com/a.txt"},
    ]
    sent = [_chunk(scene, "content", block) for block in blocks]
    await scene.expect_alive("R-CONT-03", "an image, a sound, a resource and a link", *sent)


@scenario("updates/unknown", "R-GEN-08", "R-GEN-11")
async def _unknown(scene: ClientContext) -> None:
    """Sends updates of unknown kinds, with unknown keys, and with values that are forgiven."""
    sent = [
        scene.update("_accord_mood", mood="good"),
        scene.update("accord_later", of={"a": "later version"}),
        _chunk(scene, "unknown", {**fixtures.text_block("Known, "), "accordUnheardOf": 1}),
    ]
    known = scene.add_tool_call("Unknown keys", accordUnheardOf={"any": 1}, _meta={"accord": 1})
    sent.append(scene.update("tool_call_update", toolCallId=known, status="completed"))
    await scene.expect_alive("R-GEN-08", "unknown updates and keys", *sent)
    parts: list[Json] = [
        {"type": "content"},
        {"type": "content", "content": fixtures.text_block("kept")},
    ]
    odd = scene.add_tool_call("Malformed parts", kind=1, content=parts, locations=[{"line": 1}, 5])
    sent = [
        scene.agent.last_frame,
        scene.update("tool_call_update", toolCallId=odd, locations="none", rawInput=None),
        scene.update("tool_call_update", toolCallId="never told of", status="completed"),
        scene.update("session_info_update", title=5, updatedAt=None),
    ]
    await scene.expect_alive("R-GEN-11", "malformed values that the schema forgives", *sent)
    sent = [
        scene.update("agent_message_chunk", content="no block"),
        scene.update("agent_message_chunk"),
        scene.send_notification("session/update", {"sessionId": scene.session.id}),
        scene.send_notification("session/update", scene.session_params(update=[])),
    ]
    await scene.expect_alive("R-GEN-11", "malformed updates, which are dropped", *sent)


@scenario("updates/options", "R-CONF-12", "R-CONF-14")
async def _options(scene: ClientContext) -> None:
    """Changes the configuration: unknown categories and types, none at all."""
    ident = "id" if scene.version == 1 else "configId"
    choice: Json = {"type": "select", "name": "Odd", "currentValue": "a"}
    choice["options"] = [{"value": "a", "name": "A"}]
    odd: list[Json] = [
        {**choice, ident: "none"},
        {**choice, ident: "later", "category": "accord_later"},
        {**choice, ident: "custom", "category": "_accord"},
    ]
    every = fixtures.config_options(scene.version, scene.session.mode, *odd)
    sent = scene.update("config_option_update", configOptions=every)
    await scene.expect_alive("R-CONF-14", "options of unknown categories", sent)
    slider = {ident: "dial", "type": "_accord_dial", "name": "Dial", "currentValue": 5}
    every = fixtures.config_options(scene.version, scene.session.mode, slider)
    sent = scene.update("config_option_update", configOptions=every)
    await scene.expect_alive("R-CONF-12", "an option of an unknown type", sent)
    scene.update(
        "config_option_update", configOptions=fixtures.config_options(scene.version, "strict")
    )
    scene.session.mode = "strict"


@scenario("updates/diffs", "R-TOOL-23", versions=(2,))
async def _diffs(scene: ClientContext) -> None:
    """Shows diffs without a patch."""
    change = {"operation": "modify", "path": f"{scene.session.cwd}/a.txt"}
    moved = {**change, "operation": "move", "oldPath": f"{scene.session.cwd}/b.txt"}
    diff: Json = {"type": "diff", "changes": [change]}
    sent: list[Frame] = []
    for one in (diff, {**diff, "patch": None}, {**diff, "changes": [moved]}):
        scene.add_tool_call(
            "A diff without a patch", kind="edit", content=[one], status="completed"
        )
        sent.append(scene.agent.last_frame)
    await scene.expect_alive("R-TOOL-23", "diffs without a patch", *sent)


@scenario("updates/plans", "R-PLAN-10", versions=(2,))
async def _plans(scene: ClientContext) -> None:
    """Shows plans as lists, files and Markdown, of unknown type, and removes one."""
    entry = {"content": "Do it", "priority": "_accord", "status": "accord_later"}
    shown: list[Json] = [
        {"type": "items", "planId": "p1", "entries": [entry]},
        {"type": "markdown", "planId": "p2", "content": "# A plan"},
        {"type": "file", "planId": "p3", "uri": "file:///plan.md"},
        {"type": "_accord", "planId": "p1"},
    ]
    sent = [scene.update("plan_update", plan=plan) for plan in shown]
    sent.append(scene.update("plan_removed", planId="p2"))
    await scene.expect_alive("R-PLAN-10", "plans as Markdown and files, and their removal", *sent)


@scenario("updates/states", "R-PROMPT-18", versions=(2,))
async def _states(scene: ClientContext) -> None:
    """Goes through the states; messages are rewritten, terminals and tool calls patched."""
    scene.update("state_update", state="requires_action")
    scene.update("state_update", state="running", background=[])
    scene.update("state_update", state="_accord_dreaming")
    scene.update("state_update", state="running", background=[{"type": "_accord", "any": 1}])
    scene.update("state_update", state="running", background=[])
    block = fixtures.text_block("Rewritten. ")
    scene.update("agent_message", messageId="states", content=[fixtures.text_block("First. ")])
    _chunk(scene, "states", fixtures.text_block("Appended. "))
    scene.update("agent_message", messageId="states", content=[block])
    scene.update("agent_message", messageId="states", _meta={"accord": None})
    tool = scene.add_tool_call("Patched", kind="execute", name="run")
    scene.update("tool_call_update", toolCallId=tool, name=None, kind=None, content=None)
    anchor = {"type": "terminal", "terminalId": "late"}
    scene.update("tool_call_content_chunk", toolCallId=tool, content=anchor)
    split = "ä".encode()
    for part in (split[:1], split[1:] + b"\n", b"\xff\n"):
        data = base64.b64encode(part).decode()
        scene.update("terminal_output_chunk", terminalId="late", data=data)
    scene.update("terminal_update", terminalId="late", command="make", exitStatus={})
    scene.update("terminal_update", terminalId="late", output=None, size={"cols": 0, "rows": "x"})
    sent = scene.update("tool_call_update", toolCallId=tool, status="_accord_nearly")
    await scene.expect_alive("R-PROMPT-18", "states, messages and terminals in any order", sent)


@scenario("updates/many")
async def _many(scene: ClientContext) -> None:
    """Sends 2000 small updates at once, and one of a million characters."""
    for number in range(2000):
        scene.update("tool_call_update", toolCallId="many", title=f"Step {number}")
    scene.update("tool_call_update", toolCallId="many", title="Big", rawOutput="x" * 10**6)
    if not await scene.agent.is_alive():
        raise ClientGone("it did not bear that much")


@scenario("updates/children")
async def _children(scene: ClientContext) -> None:
    """Tells of a subagent, and of what it does."""
    known = scene.version == 2 or scene.supports("subagents")
    scene.require(known, "the client does not follow subagents")
    child = f"{scene.session.id}-child"
    scene.update("subagent_update", sessionId=child, title="A subagent")
    said = {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "c",
        "content": fixtures.text_block("Here."),
    }
    scene.send_notification("session/update", {"sessionId": child, "update": said})
    if scene.version == 2:
        state = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
        scene.send_notification("session/update", {"sessionId": child, "update": state})
    await scene.agent.is_alive()  # what it does with the child is observed


@scenario("updates/icons", "R-CONT-07", versions=(2,))
async def _icons(scene: ClientContext) -> None:
    """Shows a link whose icon has an address that is not allowed, and waits for who comes."""
    async with WebServer() as server:
        link = {
            "type": "resource_link",
            "name": "icon.txt",
            "uri": "https://example.com/icon.txt",
            "icons": [{"src": f"{server.address}/icon.png", "mimeType": "image/png"}],
        }
        sent = _chunk(scene, "icons", link)
        await scene.agent.is_alive()
        asked = await server.wait_for_visits(within_s=0.3)
        scene.judge(
            "R-CONT-07",
            not asked,
            sent,
            expected="no request for an icon over plain HTTP",
            got=f"a request for {', '.join(asked)}",
        )


def _chunk(scene: ClientContext, message: str, block: Json) -> Frame:
    return scene.update("agent_message_chunk", messageId=message, content=block)


SCENES = (_content, _unknown, _options, _diffs, _plans, _states, _many, _children, _icons)
