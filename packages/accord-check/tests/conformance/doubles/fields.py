"""Doubles with one wrong field: a type, value, name or path that the rule forbids."""

from __future__ import annotations

from typing import Any

from conformance.doubles.conversation import SELECT_1, SELECT_2, TEXT, Talker, breaks

breaks("R-INIT-08", 1, 2, name="unknown_method", by="client")(
    lambda t: t.refused("session/dance", t.here(), -32601)
)
breaks("R-INIT-08", 1, name="status_of_the_other_version", by="agent")(
    lambda t: t.tool(status="cancelled")
)
breaks("R-INIT-09", 1, name="method_of_version_2", by="client")(
    lambda t: t.refused("auth/login", {"methodId": "key"}, -32601)
)
breaks("R-INIT-09", 2, name="method_of_version_1", by="client")(
    lambda t: t.refused("authenticate", {"methodId": "key"}, -32601)
)
breaks("R-FS-08", 2, name="files_in_version_2", by="agent")(
    lambda t: t.refused("fs/read_text_file", t.here(path="/project/a"), -32601, "agent")
)
breaks("R-TERM-13", 2, name="terminals_in_version_2", by="agent")(
    lambda t: t.refused("terminal/create", t.here(command="ls"), -32601, "agent")
)
breaks("R-MODE-06", 2, name="mode_in_version_2", by="client")(
    lambda t: t.refused("session/set_mode", t.here(modeId="ask"), -32601)
)
breaks("R-MODE-06", 2, name="modes_in_a_setup_of_version_2", by="agent")(
    lambda t: t.call("session/new", {"cwd": "/project"}, {"sessionId": "s2", "modes": {}})
)
breaks("R-GEN-07", 1, 2, name="key_in_snake_case", by="agent")(lambda t: t.tool(raw_input={"a": 1}))
breaks("R-GEN-07", 1, name="update_in_camel_case", by="agent")(
    lambda t: t.update("agentMessageChunk", content=TEXT)
)
breaks("R-GEN-12", 1, 2, name="unknown_key", by="agent")(lambda t: t.tool(color="red"))
breaks("R-EXT-01", 1, 2, name="meta_as_text", by="agent")(lambda t: t.tool(_meta="none"))


@breaks("R-EXT-09", 2, by="agent")
def unknown_priority(t: Talker) -> None:
    entry = {"content": "Do it", "priority": "urgent", "status": "pending"}
    t.update("plan_update", plan={"type": "items", "planId": "p", "entries": [entry]})


# Paths and lines.


breaks("R-GEN-01", 1, 2, name="relative_location", by="agent")(
    lambda t: t.tool(locations=[{"path": "src/app.py"}])
)
breaks("R-GEN-02", 1, 2, name="line_zero", by="agent")(
    lambda t: t.tool(locations=[{"path": "/project/app.py", "line": 0}])
)
breaks("R-GEN-15", 2, name="location_as_uri", by="agent")(
    lambda t: t.tool(locations=[{"path": "file:///project/app.py"}])
)
breaks("R-SESS-03", 1, 2, name="relative_cwd", by="client")(
    lambda t: t.refused("session/new", {"cwd": "project", "mcpServers": []}, -32602)
)


@breaks("R-DIR-02", 1, 2)
def relative_root(t: Talker) -> None:
    params = {"cwd": "/project", "mcpServers": [], "additionalDirectories": ["more"]}
    t.refused("session/new", params, -32602)


breaks("R-DIR-11", 1, 2, name="root_named_twice")(
    lambda t: t.new({"additionalDirectories": ["/more", "/more"]}, sessionId="s2")
)
breaks("R-FS-05", 1, name="relative_file", by="agent")(
    lambda t: t.refused("fs/read_text_file", t.here(path="a.txt"), -32602, "agent")
)
breaks("R-TOOL-17", 1, name="relative_diff")(
    lambda t: t.tool(content=[{"type": "diff", "path": "a.txt", "newText": "a"}])
)
breaks("R-DTERM-04", 2, name="relative_terminal")(
    lambda t: t.update("terminal_update", terminalId="x", command="ls", cwd="src")
)
breaks("R-PERM-11", 2, name="relative_command")(
    lambda t: t.permission(subject={"type": "command", "command": "ls", "cwd": "src"})
)


# MCP servers and system prompts.


def _server(t: Talker, server: Any) -> None:
    t.refused("session/new", {"cwd": "/project", "mcpServers": [server]}, -32602)


breaks("R-MCP-04", 1, name="stdio_server_with_a_type", by="client")(
    lambda t: _server(t, {"type": "stdio", "name": "x", "command": "/bin/x", "args": [], "env": []})
)
breaks("R-MCP-04", 1, name="stdio_server_without_env", by="client")(
    lambda t: _server(t, {"name": "x", "command": "/bin/x", "args": []})
)
breaks("R-MCP-05", 2, name="server_without_type", by="client")(
    lambda t: _server(t, {"name": "x", "command": "/bin/x"})
)
breaks("R-MCP-06", 2, name="server_of_an_unknown_type", by="client")(
    lambda t: _server(t, {"type": "sse", "name": "x", "url": "https://example.com"})
)
breaks("R-MCP-10", 1, name="relative_server", by="client")(
    lambda t: _server(t, {"name": "x", "command": "npx", "args": [], "env": []})
)
breaks("R-MCP-11", 1, name="no_list_of_servers")(
    lambda t: t.refused("session/new", {"cwd": "/project"}, -32602)
)


def _system(t: Talker, prompt: Any) -> None:
    params = {"cwd": "/project", "mcpServers": [], "systemPrompt": prompt}
    t.refused("session/new", params, -32602)


@breaks("R-SYSP-05", 1, 2)
def image_as_system_prompt(t: Talker) -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    _system(t, {"mode": "append", "content": [image]})


breaks("R-SYSP-10", 1, 2, name="system_prompt_as_text", by="client")(
    lambda t: _system(t, "Be kind.")
)


# Messages, usage, notices, content.


breaks("R-MSG-02", 2, name="chunk_without_message")(
    lambda t: t.update("agent_message_chunk", content=TEXT)
)


@breaks("R-MSG-05", 1, 2, by="client")
def message_id_in_a_prompt(t: Talker) -> None:
    ident = t.ask("session/prompt", t.here(prompt=[TEXT], messageId="m"))
    t.fail(ident, -32602)


breaks("R-USAGE-02", 1, 2, name="usage_without_size")(lambda t: t.update("usage_update", used=1))
breaks("R-USAGE-03", 1, 2, name="cost_without_currency")(
    lambda t: t.update("usage_update", used=1, size=2, cost={"amount": 1})
)
breaks("R-NOTICE-02", 1, 2, name="notice_without_title")(
    lambda t: t.update("notice", severity="info", title="")
)
breaks("R-CONT-01", 1, 2, name="text_without_text", by="agent")(
    lambda t: t.update("agent_message_chunk", messageId="a", content={"type": "text"})
)
breaks("R-CONT-05", 2, name="unknown_content_block", by="agent")(
    lambda t: t.update("agent_message_chunk", messageId="a", content={"type": "video"})
)


@breaks("R-CONT-06", 2, by="agent")
def image_that_is_no_base64(t: Talker) -> None:
    image = {"type": "image", "data": "?", "mimeType": "image/png"}
    t.update("agent_message_chunk", messageId="a", content=image)


@breaks("R-CONT-06", 2, by="agent")
def link_that_is_no_uri(t: Talker) -> None:
    link = {"type": "resource_link", "name": "a", "uri": "a.txt"}
    t.update("agent_message_chunk", messageId="a", content=link)


@breaks("R-COMP-03", 1, 2)
def compaction_that_ends_twice(t: Talker) -> None:
    for status in ("in_progress", "completed", "failed"):
        t.update("compaction_update", compactionId="c", status=status)


# Plans, options, commands.


breaks("R-PLAN-07", 2, name="plan_without_id", by="agent")(
    lambda t: t.update("plan_update", plan={"type": "items", "entries": []})
)
breaks("R-PLAN-11", 2, name="plan_in_a_relative_file")(
    lambda t: t.update("plan_update", plan={"type": "file", "planId": "p", "uri": "plan.md"})
)
breaks("R-PLAN-14", 2, name="entries_that_are_no_list", by="agent")(
    lambda t: t.update("plan_update", plan={"type": "items", "planId": "p", "entries": "none"})
)


def _option(t: Talker, **changes: Any) -> None:
    option = (SELECT_1 if t.version == 1 else SELECT_2) | changes
    some = {key: value for key, value in option.items() if value is not None}
    t.update("config_option_update", configOptions=[some])


breaks("R-CONF-01", 1, 2, name="option_without_value")(lambda t: _option(t, currentValue=None))
breaks("R-CONF-17", 2, name="value_that_there_is_not")(lambda t: _option(t, currentValue="huge"))
breaks("R-CONF-17", 2, name="option_without_choices")(lambda t: _option(t, options=[]))
breaks("R-CONF-03", 1, 2, name="update_without_options")(lambda t: t.update("config_option_update"))


@breaks("R-CONF-02", 1, 2)
def answer_without_options(t: Talker) -> None:
    params = t.here(configId="model", value="tiny")
    t.call("session/set_config_option", _typed(t, params), {})


def _typed(t: Talker, params: dict[str, Any], kind: str = "id") -> dict[str, Any]:
    return params if t.version == 1 else params | {"type": kind}


@breaks("R-CONF-07", 1, 2)
def value_that_was_not_offered(t: Talker) -> None:
    params = t.here(configId="model", value="huge")
    t.refused("session/set_config_option", _typed(t, params), -32602)


@breaks("R-CONF-09", 1)
def id_value_with_a_type(t: Talker) -> None:
    params = t.here(configId="model", value="tiny", type="id")
    t.call("session/set_config_option", params, {"configOptions": [SELECT_1]})


breaks("R-CONF-10", 2, name="value_without_a_type")(
    lambda t: t.refused("session/set_config_option", t.here(configId="model", value="tiny"), -32602)
)


@breaks("R-CONF-11", 2)
def unknown_option_is_set(t: Talker) -> None:
    params = t.here(configId="other", value="tiny", type="id")
    t.call("session/set_config_option", params, {"configOptions": [SELECT_2]})


@breaks("R-CONF-18", 2)
def options_that_cannot_be_set(t: Talker) -> None:
    params = t.here(configId="model", value="tiny", type="id")
    t.refused("session/set_config_option", params, -32601)


@breaks("R-CMD-04", 2, by="agent")
def input_without_type(t: Talker) -> None:
    command = {"type": "command", "name": "a", "description": "A", "input": {"hint": "x"}}
    t.update("available_commands_update", availableCommands=[command])


@breaks("R-CMD-05", 1, by="agent")
def input_with_type(t: Talker) -> None:
    command = {"name": "a", "description": "A", "input": {"hint": "x", "type": "text"}}
    t.update("available_commands_update", availableCommands=[command])


@breaks("R-CMD-06", 2)
def name_with_a_slash(t: Talker) -> None:
    command = {"type": "command", "name": "/a", "description": "A"}
    t.update("available_commands_update", availableCommands=[command])


@breaks("R-CMD-06", 2)
def command_without_type(t: Talker) -> None:
    t.update("available_commands_update", availableCommands=[{"name": "a", "description": "A"}])


breaks("R-MODE-02", 1, name="mode_that_was_not_listed")(
    lambda t: t.refused("session/set_mode", t.here(modeId="other"), -32602)
)
breaks("R-MODE-03", 1, name="mode_that_is_not_listed")(
    lambda t: t.update("current_mode_update", currentModeId="other")
)
breaks("R-DIR-06", 1, 2, name="relative_root_accepted", also={"R-DIR-02"})(
    lambda t: t.new({"additionalDirectories": ["more"]}, sessionId="s2")
)
breaks("R-SESS-35", 2, name="resume_without_directory")(
    lambda t: t.refused("session/resume", {"sessionId": "old"}, -32602)
)
breaks("R-TITLE-04", 1, 2, name="title_not_told")(
    lambda t: t.call("session/set_title", t.here(title="A title"), {})
)
breaks("R-TERM-02", 1, name="terminal_without_id")(
    lambda t: t.call("terminal/create", t.here(command="make"), {}, "agent")
)


@breaks("R-TERM-07", 1)
def exit_code_as_words(t: Talker) -> None:
    t.call("terminal/create", t.here(command="make"), {"terminalId": "x"}, "agent")
    t.call("terminal/wait_for_exit", t.here(terminalId="x"), {"exitCode": "none"}, "agent")


breaks("R-BGW-01", 2, name="background_as_a_number")(lambda t: t.state("running", background=1))
breaks("R-INIT-08", 1, 2, name="cancel_as_a_request", by="client")(
    lambda t: t.call("session/cancel", t.here(), {})
)
breaks("R-INIT-08", 1, 2, name="method_of_the_other_side", by="client")(
    lambda t: t.note("session/update", t.here(update={}))
)
