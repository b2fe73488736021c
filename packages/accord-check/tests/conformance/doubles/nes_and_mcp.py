"""Next edit suggestions and MCP over ACP: conforming conversations, and doubles of each rule."""

from __future__ import annotations

from typing import Any

from conformance.doubles.conversation import Json, Talker, breaks

__all__ = ("mcp_kept", "nes_kept")

START = {"line": 0, "character": 0}
RANGE = {"start": START, "end": {"line": 0, "character": 3}}
EDIT: Json = {"kind": "edit", "id": "1", "uri": "file:///a", "edits": []}
EDIT["edits"] = [{"range": RANGE, "newText": "one"}]
JUMP = {"kind": "jump", "id": "2", "uri": "file:///a", "position": START}


# Next edit suggestions.


def _start(t: Talker) -> None:
    folder = {"uri": "file:///project", "name": "project"}
    t.call("nes/start", {"workspaceFolders": [folder]}, {"sessionId": "n1"})


def _place(**more: Any) -> Json:
    about = {"uri": "file:///a", "version": 1, "position": START, "triggerKind": "automatic"}
    return {"sessionId": "n1", **about, **more}


def _suggest(t: Talker, *suggestions: Json, **more: Any) -> None:
    t.call("nes/suggest", _place(**more), {"suggestions": list(suggestions)})


def _change(t: Talker, *changes: Json) -> None:
    params = {"sessionId": "n1", "uri": "file:///a", "version": 2, "contentChanges": list(changes)}
    t.note("document/didChange", params)


def nes_kept(t: Talker) -> None:
    """Both sides conform to the rules of next edit suggestions."""
    _start(t)
    document = {"uri": "file:///a", "languageId": "text"}
    t.note("document/didOpen", {"sessionId": "n1", **document, "version": 1, "text": "two"})
    _change(t, {"text": "three"})
    _suggest(t, EDIT, JUMP, context={"openFiles": [document], "recentFiles": []})
    t.note("nes/accept", {"sessionId": "n1", "id": "1"})
    t.note("nes/reject", {"sessionId": "n1", "id": "2", "reason": "ignored"})
    waiting = t.ask("nes/suggest", _place())
    crossed = t.ask("nes/suggest", _place())
    t.call("nes/close", {"sessionId": "n1"}, {})
    t.fail(waiting, -32800)
    t.answer(crossed, {"suggestions": [EDIT]})
    t.refused("nes/suggest", _place(), -32602)
    t.call("nes/start", {}, {"sessionId": t.session})  # ids of chats are different
    t.call("nes/close", t.here(), {})


@breaks("R-NES-01", 1, by="client")
def unrequested_event(t: Talker) -> None:
    _start(t)
    t.note("document/didSave", {"sessionId": "n1", "uri": "file:///a"})


@breaks("R-NES-01", 1, by="client")
def unrequested_context(t: Talker) -> None:
    _start(t)
    _suggest(t, context={"editHistory": [{"uri": "file:///a", "diff": "-"}]})


breaks("R-NES-02", 1, name="suggestions_for_a_chat")(
    lambda t: t.refused("nes/suggest", _place(sessionId=t.session), -32602)
)


def _encodings(t: Talker, client: Json, picked: str) -> None:
    t.initialize(client=client, agent={"positionEncoding": picked}, says={"authMethods": []})


breaks("R-NES-04", 1, name="encoding_that_the_client_lacks", bare=True, by="agent")(
    lambda t: _encodings(t, {"positionEncodings": ["utf-8"]}, "utf-32")
)
breaks("R-NES-04", 1, name="encoding_where_none_is_offered", bare=True, by="agent")(
    lambda t: _encodings(t, {"fs": {}}, "utf-8")
)


@breaks("R-NES-06", 1)
def part_where_the_whole_is_wanted(t: Talker) -> None:
    _start(t)
    _change(t, {"range": RANGE, "text": "three"})


@breaks("R-NES-07", 1)
def kind_that_the_client_lacks(t: Talker) -> None:
    _start(t)
    rename = {"kind": "rename", "id": "3", "uri": "file:///a", "position": START, "newName": "b"}
    _suggest(t, rename)


@breaks("R-NES-09", 1)
def suggestions_after_the_close(t: Talker) -> None:
    _start(t)
    t.call("nes/close", {"sessionId": "n1"}, {})
    _suggest(t, EDIT)


@breaks("R-NES-09", 1)
def work_that_outlives_the_close(t: Talker) -> None:
    _start(t)
    asked = t.ask("nes/suggest", _place())
    t.call("nes/close", {"sessionId": "n1"}, {})
    t.time += 60
    t.answer(asked, {"suggestions": [EDIT]})


@breaks("R-NES-10", 1, by="agent")
def suggestion_id_as_it_was(t: Talker) -> None:
    _start(t)
    old = {key: value for key, value in EDIT.items() if key != "id"}
    _suggest(t, old | {"suggestionId": "1"})


@breaks("R-NES-10", 1, by="client")
def accepted_without_an_id(t: Talker) -> None:
    _start(t)
    t.note("nes/accept", {"sessionId": "n1", "suggestionId": "1"})


breaks("R-NES-12", 2, name="suggestions_in_version_2", by="client")(
    lambda t: t.refused("nes/start", {}, -32601)
)
breaks("R-NES-12", 2, name="suggestions_offered_in_version_2", bare=True, by="agent")(
    lambda t: t.initialize(agent={"session": {}, "nes": {}})
)


@breaks("R-NES-13", 1, by="client")
def trigger_of_its_own(t: Talker) -> None:
    _start(t)
    t.refused("nes/suggest", _place(triggerKind="_mood"), -32602)


@breaks("R-NES-13", 1, by="agent")
def suggestion_of_its_own(t: Talker) -> None:
    _start(t)
    _suggest(t, {"kind": "_example.com/dance", "id": "1"})


@breaks("R-NES-13", 1, by="client")
def change_without_text(t: Talker) -> None:
    _start(t)
    _change(t, {})


@breaks("R-NES-13", 1, bare=True, by="agent")
def kind_of_changes_of_its_own(t: Talker) -> None:
    t.initialize(agent={"nes": {"events": {"document": {"didChange": {"syncKind": "odd"}}}}})


# MCP over ACP.


INNER = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
DONE: Json = {"result": {"tools": []}}


def _declare(t: Talker, *idents: str) -> None:
    servers = [{"type": "acp", "name": f"s{n}", "serverId": x} for n, x in enumerate(idents)]
    t.new({"mcpServers": servers}, sessionId="with-servers")


def _opening(t: Talker, ident: str) -> int:
    servers = [{"type": "acp", "name": "s", "serverId": ident}]
    return t.ask("session/new", {"cwd": "/project", "mcpServers": servers})


def _ask(
    t: Talker,
    request: str = "r1",
    method: str = "tools/list",
    inner: Any = INNER,
    server: str = "mine",
) -> int:
    params = {"serverId": server, "requestId": request, "method": method, "params": inner}
    return t.ask("mcp/message", params, "agent")


def _tell(t: Talker, request: str = "r1", by: Any = "client") -> None:
    method = "notifications/progress"
    t.note("mcp/message", {"serverId": "mine", "requestId": request, "method": method}, by)


def mcp_kept(t: Talker) -> None:
    """Both sides conform to the rules of MCP over ACP."""
    _declare(t, "mine", "other")
    asked = _ask(t)
    _tell(t)
    t.answer(asked, DONE, "client")
    t.answer(_ask(t), {"error": {"code": -32601, "message": "No such method"}}, "client")
    t.answer(_ask(t), {"result": None}, "client")
    stopped = _ask(t)
    t.note("$/cancel_request", {"requestId": stopped}, "agent")
    t.fail(stopped, -32800, "client")
    faster = _ask(t, "r2")
    t.note("$/cancel_request", {"requestId": faster}, "agent")
    t.answer(faster, DONE, "client")
    crossed = _ask(t, "r3")
    t.note("$/cancel_request", {"requestId": crossed}, "agent")
    t.fail(crossed, -33002, "client")
    t.fail(_ask(t, "r4"), -33001, "client")
    t.fail(_ask(t, "r5"), -32603, "client")
    opening = _opening(t, "early")
    t.answer(_ask(t, server="early"), DONE, "client")
    t.answer(opening, {"sessionId": "with-early-server"})


breaks("R-MOA-02", 1, 2, name="server_id_twice")(lambda t: _declare(t, "mine", "mine"))
breaks("R-MOA-05", 1, 2, name="list_of_parameters", by="agent")(
    lambda t: t.fail(_ask(t, inner=[]), -32602, "client")
)
breaks("R-MOA-06", 1, 2, name="two_outcomes", by="client")(
    lambda t: t.answer(_ask(t), {**DONE, "error": {"code": 1, "message": "No"}}, "client")
)
breaks("R-MOA-06", 1, 2, name="no_outcome", by="client")(lambda t: t.answer(_ask(t), {}, "client"))


@breaks("R-MOA-08", 1, 2)
def server_declared_before_it_serves(t: Talker) -> None:
    _opening(t, "late")
    t.fail(_ask(t, server="late"), -33001, "client")


@breaks("R-MOA-09", 1, 2, by="client")
def client_asks_the_agent(t: Talker) -> None:
    params = {"serverId": "mine", "requestId": "r1", "method": "tools/list", "params": INNER}
    t.refused("mcp/message", params, -32601)


@breaks("R-MOA-09", 1, 2, by="agent")
def agent_tells_the_client(t: Talker) -> None:
    _ask(t)
    _tell(t, by="agent")


@breaks("R-MOA-09", 1, 2, by="client")
def notification_of_no_request(t: Talker) -> None:
    _ask(t)
    _tell(t, "r2")


@breaks("R-MOA-10", 1, 2)
def request_id_twice(t: Talker) -> None:
    _ask(t)
    _ask(t)


@breaks("R-MOA-11", 1, 2, by="client")
def cancelled_operation_fails_otherwise(t: Talker) -> None:
    asked = _ask(t)
    t.note("$/cancel_request", {"requestId": asked}, "agent")
    t.time += 60
    t.fail(asked, -33002, "client")


@breaks("R-MOA-12", 1, 2, by="client")
def error_of_the_server_outside(t: Talker) -> None:
    t.answer(_ask(t), DONE, "client")
    t.fail(_ask(t), -32601, "client")


breaks("R-MOA-13", 1, 2, name="handshake_inside", by="agent")(
    lambda t: _ask(t, method="initialize")
)
breaks("R-MOA-13", 1, 2, name="no_version_inside", by="agent")(lambda t: _ask(t, inner=None))


@breaks("R-MOA-15", 1, 2, by="client")
def notification_after_the_answer(t: Talker) -> None:
    t.answer(_ask(t), DONE, "client")
    _tell(t)


# Background work of subagents.


@breaks("R-BGW-05", 2)
def idle_child_listed(t: Talker) -> None:
    t.update("subagent_update", sessionId="child", title="A child")
    idle = {"sessionUpdate": "state_update", "state": "idle", "background": []}
    t.note("session/update", {"sessionId": "child", "update": idle}, "agent")
    t.state("idle", background=[{"type": "subagent", "sessionId": "child"}])
