"""Facts outside of the schema: the capability of each method, and three-state fields."""

from __future__ import annotations


def _table(text: str) -> dict[str, str]:
    """Return the gate of each method, from lines with a gate and its methods."""
    rows = (line.split() for line in text.strip().splitlines())
    return {name: gate for gate, *names in rows for name in names}


# Methods that are missing here need no capability: every peer has them, or they are enabled by
# something else (a mode, an option, an auth method, a tool call).
GATES = {
    "v1": _table("""
agent.auth.logout logout
agent.auth.status auth/status auth/status_update
agent.loadSession session/load
agent.sessionCapabilities.resume session/resume
agent.sessionCapabilities.fork session/fork
agent.sessionCapabilities.list session/list
agent.sessionCapabilities.status session/status
agent.sessionCapabilities.title session/set_title
agent.sessionCapabilities.archive session/archive session/unarchive
agent.sessionCapabilities.delete session/delete
agent.sessionCapabilities.close session/close
agent.providers providers/list providers/set providers/disable
agent.mcpCapabilities.acp mcp/message
client.elicitation elicitation/create
client.elicitation.url elicitation/complete
client.fs.readTextFile fs/read_text_file
client.fs.writeTextFile fs/write_text_file
client.terminal terminal/create terminal/output terminal/wait_for_exit terminal/kill
client.terminal terminal/release
"""),
    "v2": _table("""
agent.auth.status auth/status auth/status_update
agent.session session/new session/resume session/list session/close session/prompt session/cancel
agent.session session/set_config_option
agent.session.fork session/fork
agent.session.status session/status
agent.session.title session/set_title
agent.session.archive session/archive session/unarchive
agent.session.delete session/delete
agent.providers providers/list providers/set providers/disable
agent.session.mcp.acp mcp/message
client.elicitation elicitation/create
client.elicitation.url elicitation/complete
"""),
}
# Variants of a message with capabilities of their own, by class.
VARIANTS = {
    "v1": _table("""
client.elicitation.form ElicitationFormMode
client.elicitation.url ElicitationUrlMode
client.session.notices Notice
client.session.compaction CompactionUpdate CompactionSummaryChunk
client.plan PlanUpdate PlanRemoved
client.subagents SubagentUpdate SessionMessage SessionMessageChunk
"""),
    "v2": _table("""
client.elicitation.form ElicitationFormMode
client.elicitation.url ElicitationUrlMode
"""),
}


def _fields(text: str) -> set[str]:
    """Return `Class.key` for lines with a class and its keys."""
    rows = (line.split() for line in text.strip().splitlines())
    return {f"{name}.{key}" for name, *keys in rows for key in keys}


THREE_STATE = {
    "v1": _fields("""
CompactionUpdate _meta error summary
SessionInfoUpdate title updatedAt
SessionMessage _meta content recipientMessageId recipientSessionId senderMessageId senderSessionId
SubagentUpdate _meta additionalDirectories capabilities cwd description state title
"""),
    "v2": _fields("""
AgentMessage _meta content
AgentThought _meta content
CompactionUpdate _meta error summary
SessionInfoUpdate _meta title updatedAt
SessionMessage _meta content recipientMessageId recipientSessionId senderMessageId senderSessionId
SubagentUpdate _meta additionalDirectories capabilities cwd description state title
TerminalUpdate _meta capabilities command cwd exitStatus output size
ToolCallUpdate _meta capabilities content kind locations name rawInput rawOutput status title
UsageUpdate cost
UserMessage _meta content
"""),
}
# Further fields that distinguish null from absent, and why.
THREE_STATE_TOO = {
    "v1": {
        "CreateElicitationBase.requestId": "null is an id in v1",
        "ElicitationFormMode.requestId": "null is an id in v1",
        "ElicitationUrlMode.requestId": "null is an id in v1",
        "McpError.data": "data of an MCP server is forwarded unchanged",
        "SessionInfoUpdate._meta": "some agents clear it in v1 as they do in v2",
    },
    "v2": {
        "McpError.data": "data of an MCP server is forwarded unchanged",
    },
}
