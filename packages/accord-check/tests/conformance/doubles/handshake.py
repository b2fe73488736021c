"""Doubles that violate the rules of `initialize`, capabilities and authentication."""

from __future__ import annotations

from typing import Any

from conformance.doubles.conversation import AGENT_1, AGENT_2, CLIENT_1, CLIENT_2, Talker, breaks


@breaks("R-INIT-01", 1, 2, bare=True)
def session_before_initialize(t: Talker) -> None:
    t.refused("session/new", {"cwd": "/project", "mcpServers": []}, -32600)
    t.initialize()


@breaks("R-INIT-30", 1, 2, by="agent", bare=True)
def early_request_served(t: Talker) -> None:
    t.call("session/list", {}, {"sessions": []})
    t.initialize()


breaks("R-INIT-03", 1, name="client_capabilities_as_a_list", bare=True)(
    lambda t: t.initialize(asks={"clientCapabilities": []}, says={"authMethods": None})
)
breaks("R-INIT-03", 2, name="capabilities_as_a_list", bare=True)(
    lambda t: t.initialize(asks={"capabilities": []}, says={"authMethods": None})
)
breaks("R-INIT-04", 1, 2, name="no_version_in_the_answer", bare=True)(
    lambda t: t.initialize(says={"protocolVersion": None})
)


@breaks("R-INIT-05", 1, bare=True)
def version_above_the_one_asked_for(t: Talker) -> None:
    result = {"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {}}
    params = {"protocolVersion": 1, "clientInfo": {"name": "a", "version": "1"}}
    t.call("initialize", params, result)


breaks("R-INIT-10", 1, 2, name="version_as_text", by="client", bare=True)(
    lambda t: t.refused("initialize", {"protocolVersion": "1"}, -32602)
)


@breaks("R-INIT-06", 2, bare=True)
def version_2_with_the_body_of_1(t: Talker) -> None:
    info = {"name": "a", "version": "1"}
    t.initialize(says={"info": None, "capabilities": None, "agentInfo": info})


breaks("R-INIT-12", 2, name="version_2_with_keys_of_1_as_well", bare=True)(
    lambda t: t.initialize(says={"agentInfo": {"name": "a", "version": "1"}})
)


@breaks("R-INIT-12", 1, bare=True)
def version_1_with_the_body_of_2(t: Talker) -> None:
    info = {"name": "a", "version": "1"}
    t.initialize(says={"agentInfo": None, "agentCapabilities": None, "info": info})


breaks("R-INIT-19", 1, name="no_agent_info", bare=True)(
    lambda t: t.initialize(says={"agentInfo": None})
)
breaks("R-INIT-20", 1, name="no_client_info", bare=True)(
    lambda t: t.initialize(asks={"clientInfo": None})
)
breaks("R-INIT-21", 2, name="no_info", by="agent", bare=True)(
    lambda t: t.initialize(says={"info": None})
)
breaks("R-INIT-21", 2, name="no_info_of_the_client", by="client", bare=True)(
    lambda t: t.initialize(asks={"info": None})
)
breaks("R-INIT-23", 1, name="prompt_not_served")(
    lambda t: t.refused("session/prompt", t.here(prompt=[]), -32601)
)
breaks("R-INIT-27", 2, name="list_not_served")(lambda t: t.refused("session/list", {}, -32601))
breaks("R-INIT-25", 2, name="marker_as_boolean", by="agent", bare=True)(
    lambda t: t.initialize(agent={"session": {"fork": True}})
)
breaks("R-INIT-26", 1, name="boolean_as_marker", by="agent", bare=True)(
    lambda t: t.initialize(agent={"loadSession": {}})
)
breaks("R-INIT-31", 2, name="unsupported_version_without_data", bare=True)(
    lambda t: t.refused("initialize", {"protocolVersion": 1}, -32022)
)
breaks("R-INIT-34", 2, name="initialized_again_after_a_session")(lambda t: t.initialize())


@breaks("R-INIT-29", 1, 2, bare=True)
def providers_that_were_not_offered(t: Talker) -> None:
    _without(t, "providers")
    t.ask("providers/list", {})


def _without(t: Talker, *path: str, side: str = "agent") -> None:
    """Initialize and open a session without one of the capabilities."""
    everything: Any = {
        ("agent", 1): AGENT_1,
        ("agent", 2): AGENT_2,
        ("client", 1): CLIENT_1,
        ("client", 2): CLIENT_2,
    }[side, t.version]
    t.initialize(**{side: _less(everything, path)})
    t.new()


def _less(value: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    if len(path) == 1:
        return {key: item for key, item in value.items() if key != path[0]}
    return value | {path[0]: _less(value[path[0]], path[1:])}


def _session(t: Talker, name: str) -> None:
    _without(t, "sessionCapabilities" if t.version == 1 else "session", name)


@breaks("R-SESS-07", 1, bare=True)
def load_not_offered(t: Talker) -> None:
    _without(t, "loadSession")
    t.ask("session/load", {"sessionId": "old", "cwd": "/project", "mcpServers": []})


@breaks("R-SESS-11", 1, bare=True)
def resume_not_offered(t: Talker) -> None:
    _session(t, "resume")
    t.ask("session/resume", {"sessionId": "old", "cwd": "/project"})


@breaks("R-SESS-20", 1, bare=True)
def close_not_offered(t: Talker) -> None:
    _session(t, "close")
    t.ask("session/close", t.here())


@breaks("R-SESS-24", 1, 2, bare=True)
def fork_not_offered(t: Talker) -> None:
    _session(t, "fork")
    t.ask("session/fork", t.here(cwd="/project"))


@breaks("R-LIST-01", 1, bare=True)
def list_not_offered(t: Talker) -> None:
    t.initialize(agent={"loadSession": True})
    t.ask("session/list", {})


@breaks("R-LIST-12", 1, 2, bare=True)
def delete_not_offered(t: Talker) -> None:
    _session(t, "delete")
    t.ask("session/delete", {"sessionId": "old"})


@breaks("R-ARCH-01", 1, 2, bare=True)
def archive_not_offered(t: Talker) -> None:
    _session(t, "archive")
    t.ask("session/archive", {"sessionId": "old"})


@breaks("R-STATUS-01", 1, 2, bare=True)
def status_not_offered(t: Talker) -> None:
    _session(t, "status")
    t.ask("session/status", t.here())


@breaks("R-TITLE-01", 1, 2, bare=True)
def title_not_offered(t: Talker) -> None:
    _session(t, "title")
    t.ask("session/set_title", t.here(title="A title"))


@breaks("R-SYSP-01", 1, 2, bare=True)
def system_prompt_not_offered(t: Talker) -> None:
    _session(t, "systemPrompt")
    prompt = {"mode": "append", "content": [{"type": "text", "text": "Be kind."}]}
    params = {"cwd": "/project", "mcpServers": [], "systemPrompt": prompt}
    t.refused("session/new", params, -32602)


@breaks("R-DIR-01", 1, 2, bare=True)
def roots_not_offered(t: Talker) -> None:
    _session(t, "additionalDirectories")
    params = {"cwd": "/project", "mcpServers": [], "additionalDirectories": ["/more"]}
    t.refused("session/new", params, -32602)


@breaks("R-MCP-02", 1, bare=True)
def http_servers_not_offered(t: Talker) -> None:
    _without(t, "mcpCapabilities", "http")
    server = {"type": "http", "name": "x", "url": "https://example.com", "headers": []}
    t.refused("session/new", {"cwd": "/project", "mcpServers": [server]}, -32602)


@breaks("R-MCP-03", 2, bare=True)
def stdio_servers_not_offered(t: Talker) -> None:
    _without(t, "session", "mcp", "stdio")
    server = {"type": "stdio", "name": "x", "command": "/bin/x"}
    t.refused("session/new", {"cwd": "/project", "mcpServers": [server]}, -32602)


@breaks("R-MOA-01", 1, bare=True)
def servers_over_acp_not_offered(t: Talker) -> None:
    _without(t, "mcpCapabilities", "acp")
    server = {"type": "acp", "name": "x", "serverId": "x"}
    t.refused("session/new", {"cwd": "/project", "mcpServers": [server]}, -32602)


@breaks("R-PROMPT-02", 1, bare=True)
def images_not_offered(t: Talker) -> None:
    _without(t, "promptCapabilities", "image")
    t.prompt({"type": "image", "data": "AAAA", "mimeType": "image/png"})


@breaks("R-FS-01", 1, bare=True)
def files_not_offered(t: Talker) -> None:
    _without(t, "fs", side="client")
    t.ask("fs/read_text_file", t.here(path="/project/a"), "agent")


@breaks("R-TERM-01", 1, bare=True)
def terminals_not_offered(t: Talker) -> None:
    _without(t, "terminal", side="client")
    t.ask("terminal/create", t.here(command="ls"), "agent")


FORM: dict[str, Any] = {
    "mode": "form",
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}


@breaks("R-ELIC-02", 1, 2, bare=True)
def forms_not_offered(t: Talker) -> None:
    _without(t, "elicitation", "form", side="client")
    t.refused("elicitation/create", t.here(**FORM), -32602, "agent")


@breaks("R-NOTICE-01", 1, bare=True)
def notices_not_offered(t: Talker) -> None:
    _without(t, "session", "notices", side="client")
    t.update("notice", severity="info", title="Hello")


@breaks("R-COMP-01", 1, bare=True)
def compaction_not_offered(t: Talker) -> None:
    _without(t, "session", "compaction", side="client")
    t.update("compaction_update", compactionId="c", status="in_progress")


@breaks("R-PLAN-08", 1, bare=True)
def plans_with_ids_not_offered(t: Talker) -> None:
    _without(t, "plan", side="client")
    t.update("plan_removed", planId="p")


@breaks("R-SUBAG-01", 1, bare=True)
def subagents_not_offered(t: Talker) -> None:
    _without(t, "subagents", side="client")
    t.update("subagent_update", sessionId="child")


@breaks("R-CONF-08", 1, bare=True)
def booleans_not_offered(t: Talker) -> None:
    _without(t, "session", "configOptions", side="client")
    option = {"type": "boolean", "id": "b", "name": "B", "currentValue": True}
    t.update("config_option_update", configOptions=[option])


@breaks("R-ASTAT-01", 1, 2, bare=True)
def login_status_not_offered(t: Talker) -> None:
    _without(t, "auth", "status")
    t.ask("auth/status", {})


@breaks("R-ASTAT-06", 1, 2, bare=True)
def login_status_told_unasked(t: Talker) -> None:
    _without(t, "auth", "status")
    t.note("auth/status_update", {"state": "authenticated"}, "agent")


breaks("R-ASTAT-02", 1, 2, name="login_status_refused")(
    lambda t: t.refused("auth/status", {}, -32000)
)


@breaks("R-AUTH-25", 1, bare=True)
def logout_not_offered(t: Talker) -> None:
    _without(t, "auth", "logout")
    t.ask("logout", {})


# Authentication.


@breaks("R-AUTH-01", 1, 2, bare=True)
def login_without_name(t: Talker) -> None:
    key = "id" if t.version == 1 else "methodId"
    method = {key: "key"} if t.version == 1 else {"type": "agent", key: "key"}
    t.initialize(says={"authMethods": [method]})


breaks("R-AUTH-03", 2, name="login_without_type", by="agent", bare=True)(
    lambda t: t.initialize(says={"authMethods": [{"methodId": "key", "name": "Key"}]})
)
breaks("R-AUTH-04", 2, name="logout_not_served")(lambda t: t.refused("auth/logout", {}, -32601))


@breaks("R-AUTH-06", 2, bare=True, by="agent", also={"R-AUTH-04"})
def logout_not_served_as_nothing_is_said_of_logins(t: Talker) -> None:
    t.initialize(says={"capabilities": {"session": {}}})
    t.call("auth/login", {"methodId": "key"}, {})
    t.refused("auth/logout", {}, -32601)


@breaks("R-AUTH-05", 2, bare=True)
def login_where_none_is_listed(t: Talker) -> None:
    t.initialize(says={"authMethods": []})
    t.refused("auth/login", {"methodId": "key"}, -32602)


breaks("R-AUTH-07", 1, name="login_by_another_id")(
    lambda t: t.refused("authenticate", {"methodId": "other"}, -32602)
)


@breaks("R-AUTH-08", 1, 2)
def login_by_a_terminal(t: Talker) -> None:
    method = "authenticate" if t.version == 1 else "auth/login"
    t.refused(method, {"methodId": "tty"}, -32602)


breaks("R-AUTH-09", 2, name="login_by_another_id_succeeds")(
    lambda t: t.call("auth/login", {"methodId": "other"}, {})
)


@breaks("R-AUTH-10", 1, 2)
def login_that_does_not_help(t: Talker) -> None:
    t.call("authenticate" if t.version == 1 else "auth/login", {"methodId": "key"}, {})
    t.refused("session/new", {"cwd": "/project", "mcpServers": []}, -32000)


breaks("R-AUTH-13", 1, 2, name="terminal_login_without_opt_in", bare=True)(
    lambda t: t.initialize(asks={("clientCapabilities" if t.version == 1 else "capabilities"): {}})
)


@breaks("R-AUTH-21", 2, bare=True)
def variable_named_twice(t: Talker) -> None:
    env = [{"name": "A", "value": "b"}, {"name": "A", "value": "c"}]
    method = {"type": "terminal", "methodId": "tty", "name": "T", "env": env}
    t.initialize(says={"authMethods": [method]})


@breaks("R-AUTH-22", 1, by="agent", bare=True)
def environment_as_a_list(t: Talker) -> None:
    env = [{"name": "A", "value": "b"}]
    t.initialize(says={"authMethods": [{"type": "terminal", "id": "t", "name": "T", "env": env}]})


@breaks("R-AUTH-24", 1, 2, by="agent", bare=True)
def login_by_variables(t: Talker) -> None:
    key = "id" if t.version == 1 else "methodId"
    method = {"type": "env_var", key: "key", "name": "Key", "vars": []}
    t.initialize(says={"authMethods": [method]})


@breaks("R-AUTH-29", 2, by="agent", bare=True)
def environment_as_a_map(t: Talker) -> None:
    method = {"type": "terminal", "methodId": "tty", "name": "T", "env": {"A": "b"}}
    t.initialize(says={"authMethods": [method]})


@breaks("R-INIT-06", 1, bare=True)
def other_version_refused(t: Talker) -> None:
    params = {"protocolVersion": 2, "info": {"name": "a", "version": "1"}}
    t.refused("initialize", params, -32602)
    t.initialize()


@breaks("R-AUTH-26", 1, 2)
def session_after_the_logout(t: Talker) -> None:
    t.refused("session/new", {"cwd": "/project", "mcpServers": []}, -32000)
    t.call("authenticate" if t.version == 1 else "auth/login", {"methodId": "key"}, {})
    t.call("logout" if t.version == 1 else "auth/logout", {}, {})
    t.new(sessionId="s2")
