"""Scenarios for what a client reads: updates, malformed lines, messages after a cancellation."""

from __future__ import annotations

import base64
from contextlib import suppress

import msgspec

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, ClientGone, Json
from accord_conformance.client.fixtures import ABSENT_METHOD, WebServer
from accord_conformance.client.scenarios.state_session import require_probe
from accord_conformance.client.state_probe import IsNot, expect
from accord_conformance.harness import NoResponse, NotExercised, scenario
from accord_conformance.traffic.message import Frame

# Session updates: unknown kinds, malformed parts, unusual order, a large number.

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


UPDATES = (_content, _unknown, _options, _diffs, _plans, _states, _many, _children, _icons)


# Malformed and unknown lines, ids and messages.

# The metadata of each request in this revision of MCP.
_MCP: Json = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@scenario("malformed/unknown-requests", "R-EXT-05", "R-EXT-06", "R-GEN-09")
async def _requests(context: ClientContext) -> None:
    """Sends requests with unknown methods: with params, with null and without params."""
    for ident in ("a text", 9_007_199_254_740_991):
        call = context.connection.send_request("_accord/unknown", {"any": [1, {}]}, ident=ident)
        with suppress(NoResponse):
            await context.connection.wait_for_response(call)
        is_answered = call.response is not None
        context.require(not context.connection.is_closed, "the client disconnected")
        context.judge("R-EXT-05", is_answered, call, expected="a response", got="none")
        if not is_answered:
            continue
        # A result would mean that it knows the method.
        passed = call.code == -32601
        context.judge("R-EXT-06", passed, call, expected="error -32601", got=call.outcome)
    for nothing in ({}, {"params": None}):
        context.connection.send_message(
            id=f"without {len(nothing)}", method=ABSENT_METHOD, **nothing
        )
        call = context.connection.observer.state.find_request("agent", f"without {len(nothing)}")
        assert call is not None
        await context.connection.wait_for_response(call)
        passed = call.code not in (-32600, -32602, -32700)
        expected = "the same response as with `{}`"
        context.judge("R-GEN-09", passed, call, expected=expected, got=call.outcome)


@scenario("malformed/unknown-notifications", "R-EXT-07", "R-REQCAN-10")
async def _notifications(context: ClientContext) -> None:
    """Sends notifications with unknown methods."""
    sent = [
        context.send_notification("_accord/unheard", {"any": 1}),
        context.send_notification("session/unheard", context.session_params()),
    ]
    await context.expect_alive("R-EXT-07", "an unknown notification", *sent)
    sent = [
        context.send_notification("$/accord/unheard", {"any": 1}),
        context.send_notification("$/unheard"),
    ]
    await context.expect_alive("R-REQCAN-10", "an unknown notification with `$/`", *sent)


@scenario("malformed/late-cancels", "R-REQCAN-06")
async def _cancels(context: ClientContext) -> None:
    """Sends `$/cancel_request` for an unknown request, and for an answered one."""
    done = await context.call(ABSENT_METHOD, {})
    sent = [
        context.send_notification("$/cancel_request", {"requestId": "never sent"}),
        context.send_notification("$/cancel_request", {"requestId": done.id}),
    ]
    await context.expect_alive("R-REQCAN-06", "a cancel that comes too late", *sent)


@scenario("malformed/responses", "R-ERR-04")
async def _answers(context: ClientContext) -> None:
    """Sends responses that match no request."""
    sent = [
        context.send(b'{"jsonrpc":"2.0","id":"never asked","result":{}}'),
        context.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"It is so"}}'),
    ]
    before = len(context.connection.observer.state.frames)
    await context.expect_alive("R-ERR-04", "a response without a request", *sent)
    for frame in context.connection.observer.state.frames[before:]:
        if frame.sender == "client" and b"never asked" in frame.text:
            context.judge(
                "R-ERR-04", False, *sent, frame, expected="nothing", got="a response to it"
            )


@scenario("malformed/lines", "R-STDIO-11", media=("stdio",))
async def _lines(context: ClientContext) -> None:
    """Sends blank lines, a carriage return, and bytes that are not UTF-8."""
    note = msgspec.json.encode({"jsonrpc": "2.0", "method": "_accord/unheard"})
    sent = [context.send(b""), context.send(b"  "), context.send(note + b"\r")]
    await context.expect_alive("R-STDIO-11", "blank lines and a carriage return", *sent)
    call = context.connection.send_request(ABSENT_METHOD, {})
    sent = [context.send(note[:-1] + b',"params":{"a":"\xff\xfe"}}')]
    await context.connection.wait_for_response(call)
    await context.expect_alive("R-STDIO-11", "a line that is not UTF-8", *sent)


# Readers of events skip what is not a message (R-HTTP-28).
@scenario("malformed/frames", media=("stdio", "websocket"))
async def _broken(context: ClientContext) -> None:
    """Sends a line that is not JSON, one that is not a message, and an array."""
    context.send(b'{"jsonrpc":"2.0","id":')
    await context.agent.is_alive()
    context.send(b'{"jsonrpc":"2.0","id":"no name","method":5}')
    await context.agent.is_alive()
    entry = {"jsonrpc": "2.0", "id": "in an array", "method": ABSENT_METHOD}
    context.send(msgspec.json.encode([entry]))
    await context.agent.is_alive()
    if context.version == 2:
        context.send(msgspec.json.encode({"jsonrpc": "2.0", "id": None, "method": ABSENT_METHOD}))
        await context.agent.is_alive()


@scenario("malformed/unsupported-methods", "R-INIT-29")
async def _not_offered(context: ClientContext) -> None:
    """Sends requests that the client does not support: files, commands, elicitations."""
    asks: list[tuple[bool, str, Json]] = [
        (context.supports("fs", "readTextFile"), "fs/read_text_file", {"path": "/accord-check"}),
        (context.supports("terminal"), "terminal/create", {"command": "accord-check-nothing"}),
    ]
    for offered, method, params in asks:
        if offered:
            continue
        call = await context.call(method, context.session_params(**params))
        passed = call.code in (-32601, -32602)
        expected = "-32601 or -32602 for a method that it does not advertise"
        context.judge("R-INIT-29", passed, call, expected=expected, got=call.outcome)
    form: Json = {"requestedSchema": {"type": "object", "properties": {}}}
    page: Json = {"elicitationId": "not offered", "url": "https://example.com/"}
    for mode, more in (("form", form), ("url", page)):
        if not context.supports("elicitation", mode):
            params = context.session_params(mode=mode, message="This was not advertised", **more)
            await context.call("elicitation/create", params)  # observed


@scenario("malformed/unknown-server", "R-MOA-07")
async def _servers(context: ClientContext) -> None:
    """Sends a request for an MCP server that the client has not declared."""
    inner: Json = {"method": "tools/list", "params": {"_meta": _MCP}}
    params: Json = {"serverId": "accord-nowhere", "requestId": "accord-1", **inner}
    call = await context.call("mcp/message", params)
    is_supported = call.code not in (-32601, -32602)
    context.require(is_supported, "the client does not support MCP over ACP")
    passed = call.code == -33001
    expected = "-33001 for a server that is not registered"
    context.judge("R-MOA-07", passed, call, expected=expected, got=call.outcome)


MALFORMED = (_requests, _notifications, _cancels, _answers, _lines, _broken, _not_offered, _servers)


# Cancellation by the user, also during a permission request.

CANCEL = "Please cancel this turn now"


@scenario("cancellation/turn", "R-CANCEL-10", "R-CANCEL-11")
async def _cancel(context: ClientContext) -> None:
    """The user cancels the turn; updates of tool calls follow."""
    context.say("Please cancel this turn.")
    tool = context.add_tool_call(CANCEL, kind="other", status="in_progress")
    await context.wait_for_user_action(lambda: context.cancelled)
    await _not_yet(context)
    parts = [{"type": "content", "content": fixtures.text_block("Stopped half way.")}]
    status = "failed" if context.version == 1 else "cancelled"
    sent = [
        context.update("tool_call_update", toolCallId=tool, content=parts),
        context.update("tool_call_update", toolCallId=tool, status=status),
    ]
    await context.expect_alive("R-CANCEL-10", "updates of a tool call in a cancelled turn", *sent)


async def _not_yet(context: ClientContext) -> None:
    """Judge that the client does not treat the session as idle before the agent reports it."""
    if context.version == 1:
        return
    sent = context.connection.notifications[-1] if context.connection.notifications else None
    with suppress(NotExercised):
        probe = await require_probe(context)
        await probe.check([sent], expect("R-CANCEL-11", "", state=IsNot(("idle",))))


@scenario("cancellation/permission-request", "R-CANCEL-03", "R-CANCEL-10")
async def _cancel_asked(context: ClientContext) -> None:
    """The user cancels the turn while the agent waits for a permission."""
    context.say("Please cancel this turn while the permission request is open.")
    call = context.request_permission(f"{CANCEL}, do not answer")
    await context.wait_for_user_action(lambda: context.cancelled or call.response is not None, call)
    # The outcome `cancelled` may arrive just before the cancel itself.
    await context.agent.is_alive()
    context.require(
        context.cancelled, "the permission request was answered, and the turn was not cancelled"
    )
    sent = context.update("session_info_update", title="Check of this client, cancelled")
    await context.expect_alive("R-CANCEL-10", "an update in a cancelled turn", sent)
    if context.version == 2:
        context.cancel_request(call)
    try:
        await context.connection.wait_for_response(call)
    except NoResponse:
        if context.version == 1 and not context.connection.is_closed:
            expected = "the outcome cancelled, because the turn was cancelled"
            context.judge("R-CANCEL-03", False, call, expected=expected, got="no answer")
        context.cancel_request(call)
        return
    if context.version == 1:
        late = context.request_permission("This comes after the cancel")
        try:
            await context.connection.wait_for_response(late)  # observed
        except NoResponse:
            context.cancel_request(late)


USER_CANCEL = (_cancel_asked, _cancel)
