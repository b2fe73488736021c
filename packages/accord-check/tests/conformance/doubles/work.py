"""Doubles that violate the rules of tool calls, permissions, files, terminals and forms."""

from __future__ import annotations

from typing import Any

from conformance.doubles.conversation import OPTIONS, Talker, breaks
from conformance.doubles.handshake import FORM
from conformance.doubles.turns import CANCELLED

breaks("R-TOOL-01", 1, name="update_without_a_tool_call")(
    lambda t: t.update("tool_call_update", toolCallId="t1", status="completed")
)


@breaks("R-TOOL-02", 1, by="agent")
def tool_call_twice(t: Talker) -> None:
    t.tool()
    t.tool()


@breaks("R-TOOL-02", 2, by="agent")
def tool_call_of_an_earlier_turn(t: Talker) -> None:
    for _ in range(2):
        ident = t.prompt()
        t.tool(status="in_progress")
        t.update("tool_call_update", toolCallId="t1", status="completed")
        t.stop(ident)


@breaks("R-TOOL-02", 2, by="agent")
def tool_call_of_an_earlier_turn_with_other_input(t: Talker) -> None:
    for number in range(2):
        ident = t.prompt()
        t.tool(status="completed", rawInput={"number": number})
        t.stop(ident)


@breaks("R-TOOL-02", 1, by="agent")
def permission_for_a_call_of_an_earlier_turn(t: Talker) -> None:
    ident = t.prompt()
    t.tool()
    t.update("tool_call_update", toolCallId="t1", status="completed")
    t.stop(ident)
    ident = t.prompt()
    tool = {"toolCallId": "t1", "title": "Edit", "status": "pending"}
    outcome = {"outcome": "selected", "optionId": "yes"}
    t.answer(t.permission(toolCall=tool), {"outcome": outcome}, "client")
    t.update("tool_call_update", toolCallId="t1", status="completed")
    t.stop(ident)


breaks("R-TOOL-03", 1, name="update_of_nothing")(
    lambda t: t.update("tool_call_update", status="completed")
)
breaks("R-TOOL-09", 2, name="tool_call_without_title")(
    lambda t: t.update("tool_call_update", toolCallId="t1", status="pending")
)
breaks("R-TOOL-12", 2, name="kind_of_its_own", by="agent")(lambda t: t.tool(kind="dance"))


@breaks("R-TOOL-19", 1)
def terminal_shown_after_its_release(t: Talker) -> None:
    _terminal(t)
    t.call("terminal/release", t.here(terminalId="x"), {}, "agent")
    t.tool(content=[{"type": "terminal", "terminalId": "x"}])


def _diff(t: Talker, patch: str, path: str = "/project/a") -> None:
    change = {"operation": "modify", "path": path}
    diff = {"type": "diff", "changes": [change]}
    t.tool(content=[diff | {"patch": {"format": "git_patch", "text": patch}}])


PATCH = "diff --git /project/a /project/a\n--- /project/a\n+++ /project/a\n@@ -1 +1 @@\n-a\n+b\n"


breaks("R-TOOL-20", 2, name="diff_without_changes")(lambda t: t.tool(content=[{"type": "diff"}]))
breaks("R-TOOL-21", 2, name="patch_of_another_file")(lambda t: _diff(t, PATCH, "/project/other"))
breaks("R-TOOL-24", 2, name="patch_with_prefixes")(
    lambda t: _diff(t, "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n")
)


@breaks("R-TOOL-25", 2)
def move_from_nowhere(t: Talker) -> None:
    change = {"operation": "move", "path": "/project/a"}
    t.tool(content=[{"type": "diff", "changes": [change]}])


@breaks("R-TCAN-01", 2)
def cancel_that_was_not_offered(t: Talker) -> None:
    t.tool(status="in_progress")
    t.refused("tool_call/cancel", t.here(toolCallId="t1"), -32602)


@breaks("R-TCAN-03", 2)
def cancel_offered_to_the_end(t: Talker) -> None:
    t.tool(status="in_progress", capabilities={"cancel": {}})
    t.update("tool_call_update", toolCallId="t1", status="completed")


@breaks("R-TCAN-05", 2)
def cancel_refused_as_unknown(t: Talker) -> None:
    t.tool(status="in_progress", capabilities={"cancel": {}})
    t.refused("tool_call/cancel", t.here(toolCallId="t1"), -32601)


# Permissions.


@breaks("R-PERM-04", 1, 2)
def option_that_was_not_offered(t: Talker) -> None:
    outcome = {"outcome": {"outcome": "selected", "optionId": "maybe"}}
    t.answer(t.permission(), outcome, "client")


breaks("R-PERM-07", 2, name="permission_without_title")(
    lambda t: t.ask("session/request_permission", t.here(options=OPTIONS), "agent")
)
breaks("R-PERM-08", 2, name="no_options")(lambda t: t.permission(options=[]))
breaks("R-PERM-16", 1, name="kind_of_option_of_its_own", by="agent")(
    lambda t: t.permission(options=[{"optionId": "yes", "name": "Yes", "kind": "allow_today"}])
)
breaks("R-PERM-17", 2, name="option_offered_twice")(
    lambda t: t.permission(options=[OPTIONS[0], OPTIONS[0]])
)


@breaks("R-PERM-18", 2)
def work_without_leave(t: Talker) -> None:
    t.tool(status="pending")
    t.answer(t.permission(), CANCELLED, "client")
    t.update("tool_call_update", toolCallId="t1", status="in_progress")


@breaks("R-PERM-19", 2)
def withdrawn_question_fails(t: Talker) -> None:
    asked = t.permission()
    t.note("$/cancel_request", {"requestId": asked}, "agent")
    t.fail(asked, -32800, "client")


@breaks("R-PERM-20", 1, 2)
def edit_that_is_not_shown(t: Talker) -> None:
    t.tool(kind="edit", status="pending")
    t.permission()


# Files and terminals.


@breaks("R-FS-03", 1)
def more_lines_than_asked_for(t: Talker) -> None:
    t.call("fs/read_text_file", t.here(path="/a", limit=1), {"content": "a\nb\n"}, "agent")


def _terminal(t: Talker, **more: Any) -> None:
    t.call("terminal/create", t.here(command="make", **more), {"terminalId": "x"}, "agent")


def _output(t: Talker, **result: Any) -> None:
    result = {"output": "done", "truncated": False} | result
    t.call("terminal/output", t.here(terminalId="x"), result, "agent")


@breaks("R-TERM-04", 1)
def more_output_than_the_limit(t: Talker) -> None:
    _terminal(t, outputByteLimit=3)
    _output(t)


@breaks("R-TERM-06", 1)
def no_status_after_the_exit(t: Talker) -> None:
    _terminal(t)
    t.call("terminal/wait_for_exit", t.here(terminalId="x"), {"exitCode": 0}, "agent")
    _output(t)


@breaks("R-TERM-08", 1)
def no_output_after_the_kill(t: Talker) -> None:
    _terminal(t)
    t.call("terminal/kill", t.here(terminalId="x"), {}, "agent")
    t.refused("terminal/output", t.here(terminalId="x"), -32002, "agent")


@breaks("R-TERM-09", 1)
def terminal_not_released(t: Talker) -> None:
    _terminal(t)
    t.observer.end("client")


@breaks("R-TERM-10", 1)
def output_after_the_release(t: Talker) -> None:
    _terminal(t)
    t.call("terminal/release", t.here(terminalId="x"), {}, "agent")
    _output(t)


@breaks("R-DTERM-14", 2, by="agent")
def exit_code_as_text(t: Talker) -> None:
    t.update("terminal_update", terminalId="x", command="make", exitStatus={"exitCode": "0"})


# Elicitation.


def _form(t: Talker, result: Any = None, **changes: Any) -> int:
    ident = t.ask("elicitation/create", t.here(**(FORM | changes)), "agent")
    t.answer(ident, result or {"action": "decline"}, "client")
    return ident


@breaks("R-ELIC-01", 1, 2, bare=True)
def forms_as_a_boolean(t: Talker) -> None:
    key = "clientCapabilities" if t.version == 1 else "capabilities"
    t.initialize(asks={key: {"elicitation": {"form": True}}}, says={"authMethods": []})


@breaks("R-ELIC-03", 1, 2, also={"R-ELIC-02"}, bare=True)
def unknown_mode_answered(t: Talker) -> None:
    t.initialize(client={"elicitation": {"form": {}}}, says={"authMethods": []})
    t.new()
    page = {"mode": "url", "message": "Go", "elicitationId": "e", "url": "https://example.com"}
    ident = t.ask("elicitation/create", t.here(**page), "agent")
    t.answer(ident, {"action": "decline"}, "client")


breaks("R-ELIC-05", 1, 2, name="form_without_scope")(
    lambda t: t.fail(t.ask("elicitation/create", FORM, "agent"), -32602, "client")
)


@breaks("R-ELIC-05", 2)
def form_for_no_request(t: Talker) -> None:
    t.fail(t.ask("elicitation/create", FORM | {"requestId": 99}, "agent"), -32602, "client")


breaks("R-ELIC-07", 1, 2, name="form_without_type")(
    lambda t: _form(t, requestedSchema={"properties": {}})
)
breaks("R-ELIC-09", 1, 2, name="form_with_a_bad_property", by="agent")(
    lambda t: _form(t, requestedSchema={"type": "object", "properties": {"a": {"type": "array"}}})
)
breaks("R-ELIC-24", 1, 2, name="action_missing")(lambda t: _form(t, {"content": {}}))
breaks("R-ELIC-24", 1, name="nested_answer")(
    lambda t: _form(t, {"action": "accept", "content": {"name": {"first": "A"}}})
)


def _page(t: Talker, url: str = "https://example.com") -> int:
    page = {"mode": "url", "message": "Go", "elicitationId": "e", "url": url}
    return t.ask("elicitation/create", t.here(**page), "agent")


breaks("R-ELIC-22", 1, 2, name="password_in_the_url")(
    lambda t: _page(t, "https://me:secret@example.com")
)


@breaks("R-ELIC-28", 1, 2)
def page_id_twice(t: Talker) -> None:
    _page(t)
    _page(t)


breaks("R-ELIC-29", 1, 2, name="unknown_page_done")(
    lambda t: t.note("elicitation/complete", {"elicitationId": "other"}, "agent")
)


# Providers.


def _provider(**more: Any) -> dict[str, Any]:
    current = {"apiType": "openai", "baseUrl": "https://example.com"}
    return {
        "providerId": "main",
        "supported": ["openai"],
        "required": False,
        "current": current,
    } | more


def _list(t: Talker, provider: dict[str, Any]) -> None:
    t.call("providers/list", {}, {"providers": [provider]})


@breaks("R-PROV-02", 1, 2, bare=True)
def providers_before_initialize(t: Talker) -> None:
    t.refused("providers/list", {}, -32600)
    t.initialize()


@breaks("R-PROV-04", 1, 2)
def headers_listed(t: Talker) -> None:
    headers = {"apiType": "openai", "baseUrl": "https://example.com", "headers": {"a": "b"}}
    _list(t, _provider(current=headers))


@breaks("R-PROV-05", 1, 2)
def disabled_provider_still_current(t: Talker) -> None:
    _list(t, _provider())
    t.call("providers/disable", {"providerId": "main"}, {})
    _list(t, _provider())


@breaks("R-PROV-08", 1, 2)
def required_provider_disabled(t: Talker) -> None:
    _list(t, _provider(required=True))
    t.call("providers/disable", {"providerId": "main"}, {})


@breaks("R-PROV-09", 1, 2)
def unknown_provider_not_disabled(t: Talker) -> None:
    _list(t, _provider())
    t.refused("providers/disable", {"providerId": "other"}, -32602)


@breaks("R-DTERM-01", 2)
def terminal_used_again(t: Talker) -> None:
    t.update("terminal_update", terminalId="x", command="make", exitStatus={"exitCode": 0})
    t.update("terminal_update", terminalId="x", command="ls")


@breaks("R-DTERM-11", 2, also={"R-INIT-08"})
def terminal_that_the_client_would_size(t: Talker) -> None:
    t.update("terminal_update", terminalId="x", command="make")
    t.refused("terminal/resize", t.here(terminalId="x", cols=80, rows=24), -32601)
