"""The messages of the benchmarks as plain structs: msgspec with nothing on top."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType, field

Meta: TypeAlias = dict[str, Any] | None
META: Any = field(default=None, name="_meta")


class Base(Struct, rename="camel", omit_defaults=True):
    pass


class Annotations(Base):
    audience: list[Literal["assistant", "user"]] | None = None
    last_modified: str | None = None
    priority: float | None = None
    meta: Meta = META


class TextContent(Base, tag_field="type", tag="text"):
    text: str
    annotations: Annotations | None = None
    meta: Meta = META


class ImageContent(Base, tag_field="type", tag="image"):
    data: str
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None
    meta: Meta = META


class AudioContent(Base, tag_field="type", tag="audio"):
    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: Meta = META


class ResourceLink(Base, tag_field="type", tag="resource_link"):
    name: str
    uri: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    meta: Meta = META


class ResourceContents(Base):
    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None
    meta: Meta = META


class EmbeddedResource(Base, tag_field="type", tag="resource"):
    resource: ResourceContents
    annotations: Annotations | None = None
    meta: Meta = META


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
)


class Content(Base, tag_field="type", tag="content"):
    content: ContentBlock
    meta: Meta = META


class Diff(Base, tag_field="type", tag="diff"):
    path: str
    new_text: str
    old_text: str | None = None
    meta: Meta = META


class Terminal(Base, tag_field="type", tag="terminal"):
    terminal_id: str
    meta: Meta = META


ToolCallContent: TypeAlias = Content | Diff | Terminal
ToolKind: TypeAlias = Literal[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
]
ToolStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]


class Location(Base):
    path: str
    line: int | None = None
    meta: Meta = META


class ContentChunk(Base):
    content: ContentBlock
    message_id: str | None = None
    meta: Meta = META


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    pass


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    pass


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    pass


class ToolCall(Base, tag_field="sessionUpdate", tag="tool_call"):
    tool_call_id: str
    title: str
    kind: ToolKind = "other"
    status: ToolStatus = "pending"
    content: list[ToolCallContent] = []
    locations: list[Location] = []
    raw_input: Any = None
    raw_output: Any = None
    meta: Meta = META


class ToolCallDetails(Base):
    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolStatus | None = None
    content: list[ToolCallContent] | None = None
    locations: list[Location] | None = None
    raw_input: Any = None
    raw_output: Any = None
    meta: Meta = META


class ToolCallUpdate(ToolCallDetails, tag_field="sessionUpdate", tag="tool_call_update"):
    pass


class PlanEntry(Base):
    content: str
    priority: Literal["high", "medium", "low"]
    status: Literal["pending", "in_progress", "completed"]
    meta: Meta = META


class Plan(Base, tag_field="sessionUpdate", tag="plan"):
    entries: list[PlanEntry]
    meta: Meta = META


class CommandInput(Base):
    hint: str
    meta: Meta = META


class AvailableCommand(Base):
    name: str
    description: str
    input: CommandInput | None = None
    meta: Meta = META


class AvailableCommandsUpdate(Base, tag_field="sessionUpdate", tag="available_commands_update"):
    available_commands: list[AvailableCommand]
    meta: Meta = META


class CurrentModeUpdate(Base, tag_field="sessionUpdate", tag="current_mode_update"):
    current_mode_id: str
    meta: Meta = META


class ConfigOptionUpdate(Base, tag_field="sessionUpdate", tag="config_option_update"):
    config_options: list[Any]
    meta: Meta = META


class SessionInfoUpdate(Base, tag_field="sessionUpdate", tag="session_info_update"):
    title: str | None = None
    updated_at: str | None = None
    meta: Meta = META


class Cost(Base):
    amount: float
    currency: str


class UsageUpdate(Base, tag_field="sessionUpdate", tag="usage_update"):
    size: int
    used: int
    cost: Cost | None = None
    meta: Meta = META


Update: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
)


class SessionNotification(Base):
    session_id: str
    update: Update
    meta: Meta = META


class PromptRequest(Base):
    session_id: str
    prompt: list[ContentBlock]
    meta: Meta = META


class PromptResponse(Base):
    stop_reason: Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
    meta: Meta = META


class EnvVariable(Base):
    name: str
    value: str
    meta: Meta = META


class McpServer(Base):
    name: str
    type: Literal["http", "sse", "acp"] | None = None
    command: str | None = None
    args: list[str] = []
    env: list[EnvVariable] = []
    url: str | None = None
    headers: list[EnvVariable] = []
    meta: Meta = META


class NewSessionRequest(Base):
    cwd: str
    mcp_servers: list[McpServer]
    additional_directories: list[str] | None = None
    meta: Meta = META


class NewSessionResponse(Base):
    session_id: str
    modes: Any = None
    config_options: Any = None
    meta: Meta = META


class Implementation(Base):
    name: str
    version: str
    title: str | None = None
    meta: Meta = META


class Files(Base):
    read_text_file: bool = False
    write_text_file: bool = False
    meta: Meta = META


class ClientCapabilities(Base):
    fs: Files | None = None
    terminal: bool = False
    auth: Any = None
    session: Any = None
    elicitation: Any = None
    meta: Meta = META


class InitializeRequest(Base):
    protocol_version: int
    client_capabilities: ClientCapabilities | None = None
    client_info: Implementation | None = None
    meta: Meta = META


class PromptCapabilities(Base):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    meta: Meta = META


class AgentCapabilities(Base):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: Any = None
    session_capabilities: Any = None
    auth: Any = None
    meta: Meta = META


class InitializeResponse(Base):
    protocol_version: int
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: list[Any] = []
    agent_info: Implementation | None = None
    meta: Meta = META


class ReadRequest(Base):
    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None
    meta: Meta = META


class ReadResponse(Base):
    content: str
    meta: Meta = META


class WriteRequest(Base):
    session_id: str
    path: str
    content: str
    meta: Meta = META


class Empty(Base):
    meta: Meta = META


class PermissionOption(Base):
    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]
    meta: Meta = META


class PermissionRequest(Base):
    session_id: str
    tool_call: ToolCallDetails
    options: list[PermissionOption]
    meta: Meta = META


class Selected(Base, tag_field="outcome", tag="selected"):
    option_id: str
    meta: Meta = META


class Cancelled(Base, tag_field="outcome", tag="cancelled"):
    pass


class PermissionResponse(Base):
    outcome: Selected | Cancelled
    meta: Meta = META


class CreateTerminalRequest(Base):
    session_id: str
    command: str
    args: list[str] = []
    env: list[EnvVariable] = []
    cwd: str | None = None
    output_byte_limit: int | None = None
    meta: Meta = META


class CreateTerminalResponse(Base):
    terminal_id: str
    meta: Meta = META


class TerminalRequest(Base):
    session_id: str
    terminal_id: str
    meta: Meta = META


class ExitStatus(Base):
    exit_code: int | None = None
    signal: str | None = None
    meta: Meta = META


class OutputResponse(Base):
    output: str
    truncated: bool
    exit_status: ExitStatus | None = None
    meta: Meta = META


class CancelNotification(Base):
    session_id: str
    meta: Meta = META


class Error(Struct, omit_defaults=True):
    code: int
    message: str
    data: Any = None


class Incoming(Struct):
    """Any line; params and results are decoded later, when their type is known."""

    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class Request(Struct, tag_field="jsonrpc", tag="2.0"):
    id: Any
    method: str
    params: Any


class Notification(Struct, tag_field="jsonrpc", tag="2.0"):
    method: str
    params: Any


class Response(Struct, tag_field="jsonrpc", tag="2.0"):
    id: Any
    result: Any


class ErrorResponse(Struct, tag_field="jsonrpc", tag="2.0"):
    id: Any
    error: Error
