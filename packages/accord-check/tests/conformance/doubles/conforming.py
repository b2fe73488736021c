"""Conforming conversations, which exercise nearly all rules."""

from __future__ import annotations

from typing import Any

from conformance.doubles.conversation import INFO, OPTIONS, SELECT_1, SELECT_2, TEXT, Talker
from conformance.doubles.nes_and_mcp import mcp_kept, nes_kept
from conformance.doubles.turns import CANCELLED, STEERED, YES, steering_kept
from conformance.doubles.work import PATCH

__all__ = ("everything",)

IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png", "uri": "file:///a.png"}
TRACE = {"_meta": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}}


def everything(version: int) -> Talker:
    """Return a conversation that exercises nearly all rules."""
    t = Talker(version)
    if version == 2:
        data = {"requested": 1, "supported": [2]}
        t.refused("initialize", {"protocolVersion": 1}, -32022, data=data)
    # A client with both versions, and an agent with one of them.
    t.initialize(asks={"protocolVersion": 2, "info": INFO}, says=STEERED)
    t.new()
    t.stop(t.prompt())
    steering_kept(t)
    _sessions(t)
    mcp_kept(t)
    _login(t)
    _providers(t)
    _options(t)
    _work(t)
    if version == 1:
        nes_kept(t)
        _services(t)
        _turns_1(t)
    else:
        _turns_2(t)
    _end(t)
    return t


def _sessions(t: Talker) -> None:
    t.ask("session/list", {**TRACE, "cwd": "/project"})
    info = t.here(cwd="/project", archived=False)
    t.answer(t._ids["client"], {"sessions": [info], "nextCursor": "2"})
    t.call("session/list", {"cursor": "2"}, {"sessions": []})
    t.call("session/list", {"archived": "only"}, {"sessions": [], "nextCursor": "3"})
    t.call("session/list", {"archived": "only", "cursor": "3"}, {"sessions": []})
    t.refused("session/list", {"archived": "_x"}, -32602)
    t.call("session/archive", {"sessionId": "old"}, {})
    t.call("session/delete", {"sessionId": "older"}, {})
    t.call("session/list", {}, {"sessions": [info]})
    t.refused("session/resume", {"sessionId": "x", "cwd": "/project"}, -32002)
    t.call("session/unarchive", {"sessionId": "old"}, {})
    t.call("session/set_title", t.here(title="A title"), {"title": "A title"})
    t.refused("session/status", {"sessionId": "x"}, -32002, data={"sessionId": "x"})
    t.refused("session/delete", {"sessionId": "x"}, -32002, data={"sessionId": "x"})
    t.call("session/status", t.here(), {"status": "open"})
    t.call("session/fork", t.here(cwd="/project"), {"sessionId": "fork"})
    servers: list[dict[str, Any]] = [
        {"type": "http", "name": "web", "url": "https://example.com", "headers": []},
        {"type": "acp", "name": "mine", "serverId": "mine"},
    ]
    prompt = {"mode": "append", "content": [TEXT]}
    more = {"mcpServers": servers, "systemPrompt": prompt, "additionalDirectories": ["/more"]}
    t.new(more, sessionId="s2")
    t.update("subagent_update", sessionId="child", capabilities={"cancel": {}})
    t.note("session/cancel", {"sessionId": "child"})
    t.note("$/cancel_request", {"requestId": 1})


def _login(t: Talker) -> None:
    t.refused("session/new", {"cwd": "/project", "mcpServers": []}, -32000)
    t.call("authenticate" if t.version == 1 else "auth/login", {"methodId": "key"}, {})
    t.new(sessionId="s3")
    t.call("auth/status", {}, {"state": "authenticated"})
    t.note("auth/status_update", {"state": "unknown"}, "agent")
    t.call("logout" if t.version == 1 else "auth/logout", {}, {})
    t.refused("session/new", {"cwd": "/project", "mcpServers": []}, -32000)


def _providers(t: Talker) -> None:
    current = {"apiType": "openai", "baseUrl": "https://example.com"}
    main = {"providerId": "main", "supported": ["openai"], "required": True, "current": current}
    other = main | {"providerId": "other", "required": False}
    t.call("providers/list", {}, {"providers": [main, other]})
    t.refused("providers/disable", {"providerId": "main"}, -32602)
    t.call("providers/disable", {"providerId": "nobody"}, {})
    t.call("providers/disable", {"providerId": "other"}, {})
    t.call("providers/list", {}, {"providers": [main, other | {"current": None}]})


def _options(t: Talker) -> None:
    first = t.version == 1
    select = SELECT_1 if first else SELECT_2
    boolean: dict[str, Any] = {"type": "boolean", "name": "B", "currentValue": True}
    boolean["id" if first else "configId"] = "b"
    both = {"configOptions": [select, boolean]}
    t.update("config_option_update", **both)
    kind = {} if first else {"type": "id"}
    t.call("session/set_config_option", t.here(configId="model", value="tiny", **kind), both)
    value = t.here(configId="b", value=False, type="boolean")
    t.call("session/set_config_option", value, both)
    params = t.here(configId="other", value="x", **kind)
    t.refused("session/set_config_option", params, -32602)
    entry: dict[str, Any] = {"name": "a", "description": "A", "input": {"hint": "what"}}
    if first:
        t.call("session/set_mode", t.here(modeId="code"), {})
        t.update("current_mode_update", currentModeId="ask")
    else:
        entry["type"] = entry["input"]["type"] = "command"
        entry["input"]["type"] = "text"
    t.update("available_commands_update", availableCommands=[entry])


def _work(t: Talker) -> None:
    t.update("usage_update", used=1, size=2, cost={"amount": 0.5, "currency": "EUR"})
    t.update("notice", severity="info", title="Hello")
    for status in ("in_progress", "completed"):
        t.update("compaction_update", compactionId="c", status=status)
    entry = {"content": "Do it", "priority": "high", "status": "pending"}
    t.update("plan_update", plan={"type": "items", "planId": "p", "entries": [entry]})
    t.update("plan_update", plan={"type": "file", "planId": "p", "uri": "file:///plan.md"})
    page = {"mode": "url", "message": "Go", "elicitationId": "e", "url": "https://example.com"}
    asked = t.ask("elicitation/create", t.here(**page), "agent")
    t.answer(asked, {"action": "accept"}, "client")
    t.note("elicitation/complete", {"elicitationId": "e"}, "agent")
    t.stop(t.prompt(TEXT, IMAGE))


def _services(t: Talker) -> None:
    t.call("fs/read_text_file", t.here(path="/a", line=1, limit=2), {"content": "a\nb"}, "agent")
    create = t.here(command="make", outputByteLimit=10)
    t.call("terminal/create", create, {"terminalId": "x"}, "agent")
    terminal = t.here(terminalId="x")
    t.tool("with terminal", content=[{"type": "terminal", "terminalId": "x"}], status="completed")
    t.call("terminal/kill", terminal, {}, "agent")
    t.call("terminal/wait_for_exit", terminal, {"signal": "SIGKILL"}, "agent")
    output = {"output": "done", "truncated": False, "exitStatus": {"signal": "SIGKILL"}}
    t.call("terminal/output", terminal, output, "agent")
    t.call("terminal/release", terminal, {}, "agent")
    t.refused("terminal/output", terminal, -32602, "agent")


def _turns_1(t: Talker) -> None:
    prompt = t.prompt()
    shown = {"kind": "edit", "rawInput": {"path": "/project/a"}}
    t.tool("t9", status="pending", locations=[{"path": "/project/a", "line": 1}], **shown)
    asked = t.permission("t9")
    t.note("session/cancel", t.here())
    t.answer(asked, CANCELLED, "client")
    t.answer(t.permission("t9"), CANCELLED, "client")
    t.update("tool_call_update", toolCallId="t9", status="failed")
    t.stop(prompt, "cancelled")
    late = t.prompt()
    t.note("session/cancel", t.here())
    t.stop(late)  # they crossed on the wire
    resume = t.ask("session/resume", {"sessionId": "old", "cwd": "/project"})
    t.answer(resume, {})
    load = t.ask("session/load", {"sessionId": "older", "cwd": "/project", "mcpServers": []})
    past = {"sessionUpdate": "user_message_chunk", "content": TEXT}
    t.note("session/update", {"sessionId": "older", "update": past}, "agent")
    t.answer(load, {})


def _told_again(t: Talker) -> None:
    """A cancelled turn that had started a message, and its replay."""
    message = {"messageId": "cut", "content": TEXT}
    t.state("running", background=[])
    t.update("agent_message_chunk", **message)
    t.note("session/cancel", t.here())
    t.state("idle", stopReason="cancelled", background=[])
    params = t.here(cwd="/project", replayFrom={"type": "start"})
    resume = t.ask("session/resume", params)
    t.update("agent_message_chunk", **message)
    t.state("idle", background=[])
    t.answer(resume, {})


def _turns_2(t: Talker) -> None:
    prompt = t.prompt()
    change = {"operation": "modify", "path": "/project/a"}
    patch = {"format": "git_patch", "text": PATCH}
    t.tool(
        "t9",
        status="in_progress",
        locations=[{"path": "/project/a", "line": 1}],
        content=[{"type": "diff", "changes": [change], "patch": patch}],
        capabilities={"cancel": {}},
    )
    t.call("tool_call/cancel", t.here(toolCallId="t9"), {})
    t.update("tool_call_update", toolCallId="t9", status="cancelled", capabilities=None)
    t.answer(t.permission("t8"), YES, "client")
    t.update("tool_call_update", toolCallId="t8", status="completed")
    asked = t.permission("t7", options=OPTIONS)
    t.note("session/cancel", t.here())
    t.note("$/cancel_request", {"requestId": asked}, "agent")
    t.answer(asked, CANCELLED, "client")
    t.stop(prompt, "cancelled")
    t.session = "s2"
    t.update("terminal_update", terminalId="x", command="make", cwd="/project")
    t.state("idle", background=[{"type": "terminal", "terminalId": "x"}])
    t.update("terminal_update", terminalId="x", command="make", exitStatus={"exitCode": 0})
    running = {"sessionUpdate": "state_update", "state": "running"}
    t.note("session/update", {"sessionId": "child", "update": running}, "agent")
    t.state("idle", background=[{"type": "subagent", "sessionId": "child"}])
    t.state("idle", background=[])
    _told_again(t)
    t.session = "s1"
    t.refused("session/prompt", t.here(prompt=[{"type": "_x"}]), -32602)
    params = {"sessionId": "old", "cwd": "/project"}
    t.refused("session/resume", params | {"replayFrom": {"type": "_x"}}, -32602)
    resume = t.ask("session/resume", params)
    idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
    t.note("session/update", {"sessionId": "old", "update": idle}, "agent")
    t.answer(resume, {})
    t.refused("initialize", {"protocolVersion": 2, "info": {"name": "a", "version": "1"}}, -32600)


def _end(t: Talker) -> None:
    prompt = t.prompt()
    if t.version == 1:
        close = t.ask("session/close", t.here())
        t.stop(prompt, "cancelled")
    else:
        asked = t.permission("t6")
        close = t.ask("session/close", t.here())
        t.note("$/cancel_request", {"requestId": asked}, "agent")
        t.state("idle", stopReason="cancelled")
    t.answer(close, {})
    t.observer.end("client")
    t.observer.end("agent")
