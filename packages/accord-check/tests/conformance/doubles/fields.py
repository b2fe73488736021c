"""Doubles with one wrong field: a type, value, name or path that the rule forbids."""

from __future__ import annotations

from typing import Any

from conformance.doubles.conversation import SELECT_1, SELECT_2, TEXT, Talker, breaks


@breaks("R-INIT-08", 1, 2, by="client")
def unknown_method(t: Talker) -> None:
    t.refused("session/dance", t.here(), -32601)


@breaks("R-INIT-08", 1, by="agent")
def status_of_the_other_version(t: Talker) -> None:
    t.tool(status="cancelled")


@breaks("R-INIT-09", 1, by="client")
def method_of_version_2(t: Talker) -> None:
    t.refused("auth/login", {"methodId": "key"}, -32601)


@breaks("R-INIT-09", 2, by="client")
def method_of_version_1(t: Talker) -> None:
    t.refused("authenticate", {"methodId": "key"}, -32601)


@breaks("R-FS-08", 2, by="agent")
def files_in_version_2(t: Talker) -> None:
    t.refused("fs/read_text_file", t.here(path="/project/a"), -32601, "agent")


@breaks("R-TERM-13", 2, by="agent")
def terminals_in_version_2(t: Talker) -> None:
    t.refused("terminal/create", t.here(command="ls"), -32601, "agent")


@breaks("R-MODE-06", 2, by="client")
def mode_in_version_2(t: Talker) -> None:
    t.refused("session/set_mode", t.here(modeId="ask"), -32601)


@breaks("R-MODE-06", 2, by="agent")
def modes_in_a_setup_of_version_2(t: Talker) -> None:
    t.call("session/new", {"cwd": "/project"}, {"sessionId": "s2", "modes": {}})


@breaks("R-GEN-07", 1, 2, by="agent")
def key_in_snake_case(t: Talker) -> None:
    t.tool(raw_input={"a": 1})


@breaks("R-GEN-07", 1, by="agent")
def update_in_camel_case(t: Talker) -> None:
    t.update("agentMessageChunk", content=TEXT)


@breaks("R-GEN-12", 1, 2, by="agent")
def unknown_key(t: Talker) -> None:
    t.tool(color="red")


@breaks("R-EXT-01", 1, 2, by="agent")
def meta_as_text(t: Talker) -> None:
    t.tool(_meta="none")


@breaks("R-EXT-09", 2, by="agent")
def unknown_priority(t: Talker) -> None:
    entry = {"content": "Do it", "priority": "urgent", "status": "pending"}
    t.update("plan_update", plan={"type": "items", "planId": "p", "entries": [entry]})


# Paths and lines.


@breaks("R-GEN-01", 1, 2, by="agent")
def relative_location(t: Talker) -> None:
    t.tool(locations=[{"path": "src/app.py"}])


@breaks("R-GEN-02", 1, 2, by="agent")
def line_zero(t: Talker) -> None:
    t.tool(locations=[{"path": "/project/app.py", "line": 0}])


@breaks("R-GEN-15", 2, by="agent")
def location_as_uri(t: Talker) -> None:
    t.tool(locations=[{"path": "file:///project/app.py"}])


@breaks("R-SESS-03", 1, 2, by="client")
def relative_cwd(t: Talker) -> None:
    t.refused("session/new", {"cwd": "project", "mcpServers": []}, -32602)


@breaks("R-DIR-02", 1, 2)
def relative_root(t: Talker) -> None:
    params = {"cwd": "/project", "mcpServers": [], "additionalDirectories": ["more"]}
    t.refused("session/new", params, -32602)


@breaks("R-DIR-11", 1, 2)
def root_named_twice(t: Talker) -> None:
    t.new({"additionalDirectories": ["/more", "/more"]}, sessionId="s2")


@breaks("R-FS-05", 1, by="agent")
def relative_file(t: Talker) -> None:
    t.refused("fs/read_text_file", t.here(path="a.txt"), -32602, "agent")


@breaks("R-TOOL-17", 1)
def relative_diff(t: Talker) -> None:
    t.tool(content=[{"type": "diff", "path": "a.txt", "newText": "a"}])


@breaks("R-DTERM-04", 2)
def relative_terminal(t: Talker) -> None:
    t.update("terminal_update", terminalId="x", command="ls", cwd="src")


@breaks("R-PERM-11", 2)
def relative_command(t: Talker) -> None:
    t.permission(subject={"type": "command", "command": "ls", "cwd": "src"})


# MCP servers and system prompts.


def _server(t: Talker, server: Any) -> None:
    t.refused("session/new", {"cwd": "/project", "mcpServers": [server]}, -32602)


@breaks("R-MCP-04", 1, by="client")
def stdio_server_with_a_type(t: Talker) -> None:
    _server(t, {"type": "stdio", "name": "x", "command": "/bin/x", "args": [], "env": []})


@breaks("R-MCP-04", 1, by="client")
def stdio_server_without_env(t: Talker) -> None:
    _server(t, {"name": "x", "command": "/bin/x", "args": []})


@breaks("R-MCP-05", 2, by="client")
def server_without_type(t: Talker) -> None:
    _server(t, {"name": "x", "command": "/bin/x"})


@breaks("R-MCP-06", 2, by="client")
def server_of_an_unknown_type(t: Talker) -> None:
    _server(t, {"type": "sse", "name": "x", "url": "https://example.com"})


@breaks("R-MCP-10", 1, by="client")
def relative_server(t: Talker) -> None:
    _server(t, {"name": "x", "command": "npx", "args": [], "env": []})


@breaks("R-MCP-11", 1)
def no_list_of_servers(t: Talker) -> None:
    t.refused("session/new", {"cwd": "/project"}, -32602)


def _system(t: Talker, prompt: Any) -> None:
    params = {"cwd": "/project", "mcpServers": [], "systemPrompt": prompt}
    t.refused("session/new", params, -32602)


@breaks("R-SYSP-05", 1, 2)
def image_as_system_prompt(t: Talker) -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    _system(t, {"mode": "append", "content": [image]})


@breaks("R-SYSP-10", 1, 2, by="client")
def system_prompt_as_text(t: Talker) -> None:
    _system(t, "Be kind.")


# Messages, usage, notices, content.


@breaks("R-MSG-02", 2)
def chunk_without_message(t: Talker) -> None:
    t.update("agent_message_chunk", content=TEXT)


@breaks("R-MSG-05", 1, 2, by="client")
def message_id_in_a_prompt(t: Talker) -> None:
    ident = t.ask("session/prompt", t.here(prompt=[TEXT], messageId="m"))
    t.fail(ident, -32602)


@breaks("R-USAGE-02", 1, 2)
def usage_without_size(t: Talker) -> None:
    t.update("usage_update", used=1)


@breaks("R-USAGE-03", 1, 2)
def cost_without_currency(t: Talker) -> None:
    t.update("usage_update", used=1, size=2, cost={"amount": 1})


@breaks("R-NOTICE-02", 1, 2)
def notice_without_title(t: Talker) -> None:
    t.update("notice", severity="info", title="")


@breaks("R-CONT-01", 1, 2, by="agent")
def text_without_text(t: Talker) -> None:
    t.update("agent_message_chunk", messageId="a", content={"type": "text"})


@breaks("R-CONT-05", 2, by="agent")
def unknown_content_block(t: Talker) -> None:
    t.update("agent_message_chunk", messageId="a", content={"type": "video"})


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


@breaks("R-PLAN-07", 2, by="agent")
def plan_without_id(t: Talker) -> None:
    t.update("plan_update", plan={"type": "items", "entries": []})


@breaks("R-PLAN-11", 2)
def plan_in_a_relative_file(t: Talker) -> None:
    t.update("plan_update", plan={"type": "file", "planId": "p", "uri": "plan.md"})


@breaks("R-PLAN-14", 2, by="agent")
def entries_that_are_no_list(t: Talker) -> None:
    t.update("plan_update", plan={"type": "items", "planId": "p", "entries": "none"})


def _option(t: Talker, **changes: Any) -> None:
    option = (SELECT_1 if t.version == 1 else SELECT_2) | changes
    some = {key: value for key, value in option.items() if value is not None}
    t.update("config_option_update", configOptions=[some])


@breaks("R-CONF-01", 1, 2)
def option_without_value(t: Talker) -> None:
    _option(t, currentValue=None)


@breaks("R-CONF-17", 2)
def value_that_there_is_not(t: Talker) -> None:
    _option(t, currentValue="huge")


@breaks("R-CONF-17", 2)
def option_without_choices(t: Talker) -> None:
    _option(t, options=[])


@breaks("R-CONF-03", 1, 2)
def update_without_options(t: Talker) -> None:
    t.update("config_option_update")


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


@breaks("R-CONF-10", 2)
def value_without_a_type(t: Talker) -> None:
    params = t.here(configId="model", value="tiny")
    t.refused("session/set_config_option", params, -32602)


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


@breaks("R-MODE-02", 1)
def mode_that_was_not_listed(t: Talker) -> None:
    t.refused("session/set_mode", t.here(modeId="other"), -32602)


@breaks("R-MODE-03", 1)
def mode_that_is_not_listed(t: Talker) -> None:
    t.update("current_mode_update", currentModeId="other")


@breaks("R-DIR-06", 1, 2, also={"R-DIR-02"})
def relative_root_accepted(t: Talker) -> None:
    t.new({"additionalDirectories": ["more"]}, sessionId="s2")


@breaks("R-SESS-35", 2)
def resume_without_directory(t: Talker) -> None:
    t.refused("session/resume", {"sessionId": "old"}, -32602)


@breaks("R-TITLE-04", 1, 2)
def title_not_told(t: Talker) -> None:
    t.call("session/set_title", t.here(title="A title"), {})


@breaks("R-TERM-02", 1)
def terminal_without_id(t: Talker) -> None:
    t.call("terminal/create", t.here(command="make"), {}, "agent")


@breaks("R-TERM-07", 1)
def exit_code_as_words(t: Talker) -> None:
    t.call("terminal/create", t.here(command="make"), {"terminalId": "x"}, "agent")
    t.call("terminal/wait_for_exit", t.here(terminalId="x"), {"exitCode": "none"}, "agent")


@breaks("R-BGW-01", 2)
def background_as_a_number(t: Talker) -> None:
    t.state("running", background=1)


@breaks("R-INIT-08", 1, 2, by="client")
def cancel_as_a_request(t: Talker) -> None:
    t.call("session/cancel", t.here(), {})


@breaks("R-INIT-08", 1, 2, by="client")
def method_of_the_other_side(t: Talker) -> None:
    t.note("session/update", t.here(update={}))
