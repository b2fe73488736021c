"""Session updates: unknown kinds, malformed parts, unusual order, a large number."""

from __future__ import annotations

import base64

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, ClientGone, Json
from accord_conformance.client.web_server import WebServer
from accord_conformance.harness.scenario import scenario
from accord_conformance.traffic.frame import Frame

_IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mMwTjuDFTEMLQkAuYZZQW4mhPwAAAAASUVORK5C"
    "YII="
)
_SOUND = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="


@scenario("updates/content", "R-CONT-03")
async def _content(context: ClientContext) -> None:
    """Sends text, an image, a sound, a link and resources."""
    resource = {"uri": "accord:///note.txt", "text": "A note.\n", "mimeType": "text/plain"}
    blocks: list[Json] = [
        {"type": "image", "data": _IMAGE, "mimeType": "image/png"},
        {"type": "audio", "data": _SOUND, "mimeType": "audio/wav"},
        {"type": "resource", "resource": resource},
        {"type": "resource_link", "name": "a.txt", "uri": "https://example.com/a.txt"},
    ]
    sent = [_chunk(context, "content", block) for block in blocks]
    await context.expect_alive("R-CONT-03", "an image, a sound, a resource and a link", *sent)


@scenario("updates/unknown", "R-GEN-08", "R-GEN-11")
async def _unknown(context: ClientContext) -> None:
    """Sends unknown kinds of updates, unknown keys, and malformed values that are tolerated."""
    sent = [
        context.update("_accord_mood", mood="good"),
        context.update("accord_later", of={"a": "later version"}),
    ]
    # In version 1, the schema has no place for further kinds.
    authority = "derived" if context.version == 1 else None
    await context.expect_alive("R-GEN-08", "updates of unknown kinds", *sent, authority=authority)
    sent = [_chunk(context, "unknown", {**fixtures.text_block("Known, "), "accordUnheardOf": 1})]
    known = context.add_tool_call("Unknown keys", accordUnheardOf={"any": 1}, _meta={"accord": 1})
    sent.append(context.update("tool_call_update", toolCallId=known, status="completed"))
    await context.expect_alive("R-GEN-08", "unknown keys in updates", *sent)
    parts: list[Json] = [
        {"type": "content"},
        {"type": "content", "content": fixtures.text_block("kept")},
    ]
    odd = context.add_tool_call(
        "Malformed parts", kind=1, content=parts, locations=[{"line": 1}, 5]
    )
    sent = [
        context.agent.last_frame,
        context.update("tool_call_update", toolCallId=odd, locations="none", rawInput=None),
        context.update("tool_call_update", toolCallId="never reported", status="completed"),
        context.update("session_info_update", title=5, updatedAt=None),
    ]
    await context.expect_alive("R-GEN-11", "malformed values that the schema tolerates", *sent)
    sent = [
        context.update("agent_message_chunk", content="no block"),
        context.update("agent_message_chunk"),
        context.send_notification("session/update", {"sessionId": context.session.id}),
        context.send_notification("session/update", context.session_params(update=[])),
    ]
    # The schema marks none of these, and says nothing about what becomes of such notifications.
    why = "malformed updates, which have to be dropped"
    await context.expect_alive("R-GEN-11", why, *sent, authority="derived")


@scenario("updates/options", "R-CONF-12", "R-CONF-14")
async def _options(context: ClientContext) -> None:
    """Changes the config options: unknown categories and types, and an empty list."""
    ident = "id" if context.version == 1 else "configId"
    choice: Json = {"type": "select", "name": "Odd", "currentValue": "a"}
    choice["options"] = [{"value": "a", "name": "A"}]
    odd: list[Json] = [
        {**choice, ident: "none"},
        {**choice, ident: "later", "category": "accord_later"},
        {**choice, ident: "custom", "category": "_accord"},
    ]
    every = fixtures.config_options(context.version, context.session.mode, *odd)
    sent = context.update("config_option_update", configOptions=every)
    await context.expect_alive("R-CONF-14", "options of unknown categories", sent)
    slider = {ident: "dial", "type": "_accord_dial", "name": "Dial", "currentValue": 5}
    every = fixtures.config_options(context.version, context.session.mode, slider)
    sent = context.update("config_option_update", configOptions=every)
    await context.expect_alive("R-CONF-12", "an option of an unknown type", sent)
    context.update(
        "config_option_update", configOptions=fixtures.config_options(context.version, "strict")
    )
    context.session.mode = "strict"


@scenario("updates/diffs", "R-TOOL-23", versions=(2,))
async def _diffs(context: ClientContext) -> None:
    """Shows diffs without a patch."""
    change = {"operation": "modify", "path": f"{context.session.cwd}/a.txt"}
    moved = {**change, "operation": "move", "oldPath": f"{context.session.cwd}/b.txt"}
    diff: Json = {"type": "diff", "changes": [change]}
    sent: list[Frame] = []
    for one in (diff, {**diff, "patch": None}, {**diff, "changes": [moved]}):
        context.add_tool_call(
            "A diff without a patch", kind="edit", content=[one], status="completed"
        )
        sent.append(context.agent.last_frame)
    await context.expect_alive("R-TOOL-23", "diffs without a patch", *sent)


@scenario("updates/plans", "R-PLAN-10", versions=(2,))
async def _plans(context: ClientContext) -> None:
    """Shows plans as lists, files and Markdown, of unknown type, and removes one."""
    entry = {"content": "Do it", "priority": "_accord", "status": "accord_later"}
    shown: list[Json] = [
        {"type": "items", "planId": "p1", "entries": [entry]},
        {"type": "markdown", "planId": "p2", "content": "# A plan"},
        {"type": "file", "planId": "p3", "uri": "file:///plan.md"},
        {"type": "_accord", "planId": "p1"},
    ]
    sent = [context.update("plan_update", plan=plan) for plan in shown]
    sent.append(context.update("plan_removed", planId="p2"))
    await context.expect_alive("R-PLAN-10", "plans as Markdown and files, and their removal", *sent)


@scenario("updates/states", "R-PROMPT-18", versions=(2,))
async def _states(context: ClientContext) -> None:
    """Sends all states; messages are replaced, terminals and tool calls patched."""
    context.update("state_update", state="requires_action")
    context.update("state_update", state="running", background=[])
    context.update("state_update", state="_accord_dreaming")
    context.update("state_update", state="running", background=[{"type": "_accord", "any": 1}])
    context.update("state_update", state="running", background=[])
    block = fixtures.text_block("Rewritten. ")
    context.update("agent_message", messageId="states", content=[fixtures.text_block("First. ")])
    _chunk(context, "states", fixtures.text_block("Appended. "))
    context.update("agent_message", messageId="states", content=[block])
    context.update("agent_message", messageId="states", _meta={"accord": None})
    tool = context.add_tool_call("Patched", kind="execute", name="run")
    context.update("tool_call_update", toolCallId=tool, name=None, kind=None, content=None)
    anchor = {"type": "terminal", "terminalId": "late"}
    context.update("tool_call_content_chunk", toolCallId=tool, content=anchor)
    split = "ä".encode()
    for part in (split[:1], split[1:] + b"\n", b"\xff\n"):
        data = base64.b64encode(part).decode()
        context.update("terminal_output_chunk", terminalId="late", data=data)
    context.update("terminal_update", terminalId="late", command="make", exitStatus={})
    context.update("terminal_update", terminalId="late", output=None, size={"cols": 0, "rows": "x"})
    sent = context.update("tool_call_update", toolCallId=tool, status="_accord_nearly")
    # The text demands only updates while the session is idle, which `ScenarioAgent` sends.
    why = "states, messages and terminals in any order"
    await context.expect_alive("R-PROMPT-18", why, sent, authority="derived")


@scenario("updates/many")
async def _many(context: ClientContext) -> None:
    """Sends 2000 small updates at once, and one of a million characters."""
    for number in range(2000):
        context.update("tool_call_update", toolCallId="many", title=f"Step {number}")
    context.update("tool_call_update", toolCallId="many", title="Big", rawOutput="x" * 10**6)
    if not await context.agent.is_alive():
        raise ClientGone("it no longer responds")


@scenario("updates/subagents")
async def _children(context: ClientContext) -> None:
    """Reports a subagent and its work."""
    is_supported = context.version == 2 or context.supports("subagents")
    context.require(is_supported, "the client does not support subagents")
    child = f"{context.session.id}-child"
    context.update("subagent_update", sessionId=child, title="A subagent")
    said = {
        "sessionUpdate": "agent_message_chunk",
        "messageId": "c",
        "content": fixtures.text_block("Here."),
    }
    context.send_notification("session/update", {"sessionId": child, "update": said})
    if context.version == 2:
        state = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
        context.send_notification("session/update", {"sessionId": child, "update": state})
    await context.agent.is_alive()  # the client's requests for the subagent are observed


@scenario("updates/icons", "R-CONT-07", versions=(2,))
async def _icons(context: ClientContext) -> None:
    """Shows a link with an icon over plain HTTP, which the client must not request."""
    async with WebServer() as server:
        link = {
            "type": "resource_link",
            "name": "icon.txt",
            "uri": "https://example.com/icon.txt",
            "icons": [{"src": f"{server.address}/icon.png", "mimeType": "image/png"}],
        }
        sent = _chunk(context, "icons", link)
        await context.agent.is_alive()
        asked = await server.wait_for_visits(within_s=0.3)
        context.judge(
            "R-CONT-07",
            not asked,
            sent,
            expected="no request for an icon over plain HTTP",
            got=f"a request for {', '.join(asked)}",
        )


def _chunk(context: ClientContext, message: str, block: Json) -> Frame:
    return context.update("agent_message_chunk", messageId=message, content=block)


SCENARIOS = (_content, _unknown, _options, _diffs, _plans, _states, _many, _children, _icons)
