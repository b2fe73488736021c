"""What an agent of version 2 reports: messages, tool calls, plans, terminals, states, subagents.

`SessionUpdate`, the union of them all, is at the end.
"""

from __future__ import annotations

from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
)

from msgspec import (
    Meta,
)

from accord.v2.content import (
    AbsolutePath,
    Base64,
    CompactionId,
    ContentBlock,
    DateTime,
    Error,
    MediaType,
    MessageId,
    PlanId,
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigValueId,
    SessionId,
    TerminalId,
    ToolCallId,
    Uri,
)
from accord.wire.base import (
    UNSET,
    ByShape,
    Int64,
    KeepsMore,
    Lenient,
    LenientList,
    Open,
    OpenEnum,
    Other,
    Patch,
    UInt64,
    UnsetType,
    Unstable,
    Wire,
    always,
)
from accord.wire.protocol import (
    Method,
)

__all__ = (
    "AgentMessage",
    "AgentMessageChunk",
    "AgentThought",
    "AgentThoughtChunk",
    "AvailableCommand",
    "AvailableCommandInput",
    "AvailableCommandsUpdate",
    "BackgroundSubagent",
    "BackgroundTerminal",
    "BackgroundToolCall",
    "BackgroundWork",
    "Command",
    "CommandBase",
    "CompactionStatus",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "ConfigOptionUpdate",
    "Content",
    "ContentChunk",
    "Cost",
    "Diff",
    "DiffAdd",
    "DiffChange",
    "DiffChangeBase",
    "DiffCopy",
    "DiffDelete",
    "DiffFileType",
    "DiffModify",
    "DiffMove",
    "DiffPatch",
    "DiffPatchFormat",
    "DiffPathChange",
    "DiffPathPairChange",
    "IdleDetails",
    "IdleState",
    "IdleStateUpdate",
    "MessageUpdateBase",
    "Notice",
    "NoticeSeverity",
    "PlanBase",
    "PlanEntry",
    "PlanEntryPriority",
    "PlanEntryStatus",
    "PlanFile",
    "PlanItems",
    "PlanMarkdown",
    "PlanRemoved",
    "PlanUpdate",
    "PlanUpdateContent",
    "RequiresActionState",
    "RequiresActionStateUpdate",
    "RunningState",
    "RunningStateUpdate",
    "SessionCancelCapabilities",
    "SessionConfigBoolean",
    "SessionConfigOption",
    "SessionConfigOptionBase",
    "SessionConfigOptionCategory",
    "SessionConfigSelect",
    "SessionConfigSelectGroup",
    "SessionConfigSelectOption",
    "SessionConfigSelectOptions",
    "SessionInfoUpdate",
    "SessionMessage",
    "SessionMessageChunk",
    "SessionState",
    "SessionUpdate",
    "SetSessionConfigOptionBase",
    "SetSessionConfigOptionBoolean",
    "SetSessionConfigOptionId",
    "SetSessionConfigOptionOther",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse",
    "StateDetails",
    "StateUpdate",
    "StopReason",
    "SubagentSessionCapabilities",
    "SubagentUpdate",
    "Terminal",
    "TerminalCancelCapabilities",
    "TerminalCapabilities",
    "TerminalExitStatus",
    "TerminalOutput",
    "TerminalOutputChunk",
    "TerminalSize",
    "TerminalUpdate",
    "TextCommandInput",
    "ToolCallCancelCapabilities",
    "ToolCallCapabilities",
    "ToolCallContent",
    "ToolCallContentChunk",
    "ToolCallDetails",
    "ToolCallLocation",
    "ToolCallStatus",
    "ToolCallUpdate",
    "ToolKind",
    "UnknownState",
    "UnknownStateUpdate",
    "UpdateSessionNotification",
    "Usage",
    "UsageUpdate",
    "UserMessage",
    "UserMessageChunk",
)


# Slash commands that the user can put into a prompt.


class TextCommandInput(Wire, tag_field="type", tag="text"):
    """All text after the command's name; `hint` is shown while it is empty."""

    hint: str


AvailableCommandInput: TypeAlias = Open[TextCommandInput]


class CommandBase(Wire):
    """The fields of commands of every type; `name` has no slash."""

    name: str
    description: str


class Command(CommandBase, tag_field="type", tag="command"):
    """A command; names are unique in the list."""

    input: Lenient[AvailableCommandInput | None] = None


AvailableCommand: TypeAlias = Annotated[Open[Command], Other(CommandBase)]


class AvailableCommandsUpdate(Wire, tag_field="sessionUpdate", tag="available_commands_update"):
    """All current commands."""

    available_commands: LenientList[AvailableCommand]


# Config options: the settings of a session that the user can change.

SessionConfigOptionCategory: TypeAlias = OpenEnum[
    Literal["mode", "model", "model_config", "thought_level"]
]


class SessionConfigSelectOption(Wire):
    """One value of an option."""

    value: SessionConfigValueId
    name: str
    description: Lenient[str | None] = None


class SessionConfigSelectGroup(Wire):
    """Values under a common heading."""

    group_id: SessionConfigGroupId
    name: str
    options: Lenient[Annotated[LenientList[SessionConfigSelectOption], Meta(min_length=1)]]


SessionConfigSelectOptions: TypeAlias = ByShape[
    Annotated[list[SessionConfigSelectOption], Meta(min_length=1)]
    | Annotated[list[SessionConfigSelectGroup], Meta(min_length=1)]
]


class SessionConfigOptionBase(Wire):
    """The fields of config options of every type; `category` is only a hint for display."""

    config_id: SessionConfigId
    name: str
    description: Lenient[str | None] = None
    category: Lenient[SessionConfigOptionCategory | None] = None


class SessionConfigSelect(SessionConfigOptionBase, tag_field="type", tag="select"):
    """A choice of one value; values are unique across groups."""

    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions


class SessionConfigBoolean(SessionConfigOptionBase, tag_field="type", tag="boolean"):
    """A boolean option."""

    current_value: bool


SessionConfigOption: TypeAlias = Annotated[
    Open[SessionConfigSelect | SessionConfigBoolean], Other(SessionConfigOptionBase)
]


class SetSessionConfigOptionBase(Wire):
    """The fields of every request that sets a config option."""

    session_id: SessionId
    config_id: SessionConfigId


class SetSessionConfigOptionId(SetSessionConfigOptionBase, tag_field="type", tag="id"):
    """Sets a select option."""

    value: SessionConfigValueId


class SetSessionConfigOptionBoolean(SetSessionConfigOptionBase, tag_field="type", tag="boolean"):
    """Sets a boolean option."""

    value: bool


class SetSessionConfigOptionOther(SetSessionConfigOptionBase):
    """The other required fields of a value of an unknown type."""

    value: Any


SetSessionConfigOptionRequest: TypeAlias = Annotated[
    Open[SetSessionConfigOptionId | SetSessionConfigOptionBoolean],
    Other(SetSessionConfigOptionOther),
]


class SetSessionConfigOptionResponse(Wire):
    """All options, including the change."""

    config_options: LenientList[SessionConfigOption]


class ConfigOptionUpdate(Wire, tag_field="sessionUpdate", tag="config_option_update"):
    """All config options with their current values."""

    config_options: LenientList[SessionConfigOption]


# Tool calls: the agent's operations as the user sees them.

# Shown as "other" when it is not known.
ToolKind: TypeAlias = OpenEnum[
    Literal[
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
]
# Still in progress when it is not known.
ToolCallStatus: TypeAlias = OpenEnum[
    Literal["pending", "in_progress", "paused", "completed", "failed", "cancelled"]
]
DiffFileType: TypeAlias = OpenEnum[Literal["text", "binary", "directory", "symlink"]]
DiffPatchFormat: TypeAlias = OpenEnum[Literal["git_patch"]]


class Content(Wire, tag_field="type", tag="content"):
    """A content block that a tool call produced."""

    content: ContentBlock


class DiffChangeBase(Wire):
    """The optional fields of every file operation of a diff."""

    file_type: Lenient[DiffFileType | None] = None
    mime_type: Lenient[MediaType | None] = None


class DiffPathChange(DiffChangeBase):
    """An operation on one path."""

    path: AbsolutePath


class DiffPathPairChange(DiffChangeBase):
    """An operation from `old_path` to `path`."""

    old_path: AbsolutePath
    path: AbsolutePath


class DiffAdd(DiffPathChange, tag_field="operation", tag="add"):
    """A file was added."""


class DiffDelete(DiffPathChange, tag_field="operation", tag="delete"):
    """A file was deleted."""


class DiffModify(DiffPathChange, tag_field="operation", tag="modify"):
    """A file was modified."""


class DiffMove(DiffPathPairChange, tag_field="operation", tag="move"):
    """A file was moved, and perhaps modified."""


class DiffCopy(DiffPathPairChange, tag_field="operation", tag="copy"):
    """A file was copied, and perhaps modified."""


DiffChange: TypeAlias = Open[DiffAdd | DiffDelete | DiffModify | DiffMove | DiffCopy]


class DiffPatch(Wire):
    """The changes as text for display, with absolute paths."""

    format: DiffPatchFormat
    text: str


class Diff(Wire, tag_field="type", tag="diff"):
    """Changes of files; `changes` is authoritative, `patch` is for display."""

    changes: LenientList[DiffChange]
    patch: Lenient[DiffPatch | None] = None


class Terminal(Wire, tag_field="type", tag="terminal"):
    """A terminal whose output belongs to the tool call."""

    terminal_id: TerminalId


ToolCallContent: TypeAlias = Open[Content | Diff | Terminal]


class ToolCallLocation(Wire):
    """A location that the tool call uses; lines count from 1."""

    path: AbsolutePath
    line: Lenient[Annotated[int, Meta(ge=1, le=2**32 - 1)] | None] = None


class ToolCallCancelCapabilities(Wire):
    """The tool call can be cancelled."""


class ToolCallCapabilities(Wire):
    """What the client can do with a tool call."""

    cancel: Lenient[ToolCallCancelCapabilities | None] = None


class ToolCallDetails(Patch):
    """The changed fields of a tool call: `UNSET` keeps the previous value, `None` clears it."""

    tool_call_id: ToolCallId
    name: Lenient[str | None | UnsetType] = UNSET
    title: Lenient[str | None | UnsetType] = UNSET
    kind: Lenient[ToolKind | None | UnsetType] = UNSET
    status: Lenient[ToolCallStatus | None | UnsetType] = UNSET
    content: Lenient[LenientList[ToolCallContent] | None | UnsetType] = UNSET
    locations: Lenient[LenientList[ToolCallLocation] | None | UnsetType] = UNSET
    raw_input: Lenient[Any | UnsetType] = UNSET
    raw_output: Lenient[Any | UnsetType] = UNSET
    capabilities: Lenient[ToolCallCapabilities | None | UnsetType] = UNSET


class ToolCallUpdate(ToolCallDetails, tag_field="sessionUpdate", tag="tool_call_update"):
    """Creates or patches a tool call; a list replaces the whole previous list."""


class ToolCallContentChunk(Wire, tag_field="sessionUpdate", tag="tool_call_content_chunk"):
    """One more item of a tool call's content."""

    tool_call_id: ToolCallId
    content: ToolCallContent


# Plans: the tasks that the agent intends to do, with their status.

PlanEntryPriority: TypeAlias = OpenEnum[Literal["high", "medium", "low"]]
PlanEntryStatus: TypeAlias = OpenEnum[Literal["pending", "in_progress", "completed", "cancelled"]]


class PlanEntry(Wire):
    """One task of a plan."""

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class PlanBase(Wire):
    """The fields of plans of every type."""

    plan_id: PlanId


class PlanItems(PlanBase, tag_field="type", tag="items"):
    """A plan as a list of tasks, complete each time."""

    entries: LenientList[PlanEntry]


class PlanFile(PlanBase, tag_field="type", tag="file"):
    """A plan that is in a file."""

    __unstable__: ClassVar[bool] = True

    uri: Uri


class PlanMarkdown(PlanBase, tag_field="type", tag="markdown"):
    """A plan as Markdown."""

    __unstable__: ClassVar[bool] = True

    content: str


PlanUpdateContent: TypeAlias = Annotated[
    Open[PlanItems | Unstable[PlanFile] | Unstable[PlanMarkdown]], Other(PlanBase)
]


class PlanUpdate(Wire, tag_field="sessionUpdate", tag="plan_update"):
    """A complete plan; it replaces the plan with this id."""

    plan: PlanUpdateContent


class PlanRemoved(Wire, tag_field="sessionUpdate", tag="plan_removed"):
    """A plan was removed."""

    __unstable__: ClassVar[bool] = True

    plan_id: PlanId


# Terminals of the agent, shown by the client.

_Cells: TypeAlias = Annotated[int, Meta(ge=1, le=2**16 - 1)]


class TerminalOutput(Wire):
    """All bytes of the output so far, as base64."""

    data: Base64


class TerminalExitStatus(Wire):
    """The command has ended, even if nothing more is known."""

    exit_code: Lenient[Int64 | None] = None
    signal: Lenient[str | None] = None


class TerminalSize(Wire):
    """The size for which the command writes, in cells."""

    cols: _Cells
    rows: _Cells


class TerminalCancelCapabilities(Wire):
    """The command can be cancelled."""


class TerminalCapabilities(Wire):
    """What the client can do with a terminal."""

    cancel: Lenient[TerminalCancelCapabilities | None] = None


class TerminalUpdate(Patch, tag_field="sessionUpdate", tag="terminal_update"):
    """Creates or patches a terminal; `output` replaces all bytes so far."""

    terminal_id: TerminalId
    command: Lenient[str | None | UnsetType] = UNSET
    cwd: Lenient[AbsolutePath | None | UnsetType] = UNSET
    output: Lenient[TerminalOutput | None | UnsetType] = UNSET
    exit_status: Lenient[TerminalExitStatus | None | UnsetType] = UNSET
    size: Lenient[TerminalSize | None | UnsetType] = UNSET
    capabilities: Lenient[TerminalCapabilities | None | UnsetType] = UNSET


class TerminalOutputChunk(Wire, tag_field="sessionUpdate", tag="terminal_output_chunk"):
    """Bytes to append; each chunk is encoded separately and may split a character."""

    terminal_id: TerminalId
    data: Base64


# The state of a session: as a snapshot, and as an update.


class BackgroundTerminal(Wire, tag_field="type", tag="terminal"):
    """A command that still runs."""

    terminal_id: TerminalId


class BackgroundToolCall(Wire, tag_field="type", tag="tool_call"):
    """A tool call that still runs and has no process."""

    tool_call_id: ToolCallId


class BackgroundSubagent(Wire, tag_field="type", tag="subagent"):
    """A subagent that still works; `session_id` is the child's."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId


# Work of an unknown type still counts as running.
BackgroundWork: TypeAlias = Open[
    BackgroundTerminal | BackgroundToolCall | Unstable[BackgroundSubagent]
]


class Usage(Wire):
    """The tokens that the finished work used."""

    __unstable__: ClassVar[bool] = True

    total_tokens: UInt64
    input_tokens: UInt64
    output_tokens: UInt64
    thought_tokens: Lenient[UInt64 | None] = None
    cached_read_tokens: Lenient[UInt64 | None] = None
    cached_write_tokens: Lenient[UInt64 | None] = None


StopReason: TypeAlias = OpenEnum[
    Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"]
]


class StateDetails(Wire):
    """The fields of every known state: all background work, `None` if not reported."""

    background: Lenient[list[BackgroundWork] | None] = None


class IdleDetails(StateDetails, KeepsMore):
    """How the last work ended: `error` goes with the stop reason "error"."""

    stop_reason: Lenient[StopReason | None] = None
    error: Lenient[Error | None] = None
    usage: Unstable[Lenient[Usage | None]] = None


class RunningState(StateDetails, tag_field="state", tag="running"):
    """Foreground work is running."""


class IdleState(IdleDetails, tag_field="state", tag="idle"):
    """No foreground work is left."""


class RequiresActionState(StateDetails, tag_field="state", tag="requires_action"):
    """Work waits for the user."""


class UnknownState(StateDetails, tag_field="state", tag="unknown"):
    """The state is unknown to the agent."""

    __unstable__: ClassVar[bool] = True


# A state that is not known is never idle.
SessionState: TypeAlias = Open[
    RunningState | IdleState | RequiresActionState | Unstable[UnknownState]
]


class RunningStateUpdate(StateDetails, tag_field="sessionUpdate", tag="state_update"):
    """Foreground work starts or continues."""

    __second_tag__: ClassVar[tuple[str, str]] = ("state", "running")

    state: Literal["running"] = always("running")


class IdleStateUpdate(IdleDetails, tag_field="sessionUpdate", tag="state_update"):
    """No foreground work is left."""

    __second_tag__: ClassVar[tuple[str, str]] = ("state", "idle")

    state: Literal["idle"] = always("idle")


class RequiresActionStateUpdate(StateDetails, tag_field="sessionUpdate", tag="state_update"):
    """Work waits for the user."""

    __second_tag__: ClassVar[tuple[str, str]] = ("state", "requires_action")

    state: Literal["requires_action"] = always("requires_action")


class UnknownStateUpdate(StateDetails, tag_field="sessionUpdate", tag="state_update"):
    """The state is unknown to the agent."""

    __unstable__: ClassVar[bool] = True
    __second_tag__: ClassVar[tuple[str, str]] = ("state", "unknown")

    state: Literal["unknown"] = always("unknown")


StateUpdate: TypeAlias = ByShape[
    RunningStateUpdate | IdleStateUpdate | RequiresActionStateUpdate | Unstable[UnknownStateUpdate]
]


# Compaction of the context, and notices to the user.

CompactionStatus: TypeAlias = OpenEnum[Literal["in_progress", "completed", "failed", "cancelled"]]
NoticeSeverity: TypeAlias = OpenEnum[Literal["info", "warning", "error"]]


class CompactionUpdate(Patch, tag_field="sessionUpdate", tag="compaction_update"):
    """Creates or patches a compaction; `summary` replaces all chunks so far."""

    compaction_id: CompactionId
    status: CompactionStatus
    summary: Lenient[LenientList[ContentBlock] | None | UnsetType] = UNSET
    error: Lenient[str | None | UnsetType] = UNSET


class CompactionSummaryChunk(Wire, tag_field="sessionUpdate", tag="compaction_summary_chunk"):
    """One more block of a compaction's summary."""

    compaction_id: CompactionId
    content: ContentBlock


class Notice(Wire, tag_field="sessionUpdate", tag="notice"):
    """A message to the user outside the conversation; `title` is plain text."""

    severity: NoticeSeverity
    title: Annotated[str, Meta(min_length=1)]
    description: Lenient[str | None] = None


# Subagents, and messages between sessions (unstable).


class SessionCancelCapabilities(Wire):
    """The child's work can be cancelled."""

    __unstable__: ClassVar[bool] = True


class SubagentSessionCapabilities(Wire):
    """What the client can do with the child."""

    __unstable__: ClassVar[bool] = True

    cancel: Lenient[SessionCancelCapabilities | None] = None


class SubagentUpdate(Patch, tag_field="sessionUpdate", tag="subagent_update"):
    """Creates or patches a child session; without a `cwd` it uses that of its parent."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId
    title: Lenient[str | None | UnsetType] = UNSET
    description: Lenient[str | None | UnsetType] = UNSET
    capabilities: Lenient[SubagentSessionCapabilities | None | UnsetType] = UNSET
    state: Lenient[SessionState | None | UnsetType] = UNSET
    cwd: AbsolutePath | None | UnsetType = UNSET
    additional_directories: list[AbsolutePath] | None | UnsetType = UNSET


class SessionMessage(Patch, tag_field="sessionUpdate", tag="session_message"):
    """Creates or patches a message from one session to another, as one of them sees it."""

    __unstable__: ClassVar[bool] = True

    message_id: MessageId
    sender_session_id: Lenient[SessionId | None | UnsetType] = UNSET
    recipient_session_id: Lenient[SessionId | None | UnsetType] = UNSET
    sender_message_id: Lenient[MessageId | None | UnsetType] = UNSET
    recipient_message_id: Lenient[MessageId | None | UnsetType] = UNSET
    content: Lenient[LenientList[ContentBlock] | None | UnsetType] = UNSET


class SessionMessageChunk(Wire, tag_field="sessionUpdate", tag="session_message_chunk"):
    """One more block of a message between sessions."""

    __unstable__: ClassVar[bool] = True

    message_id: MessageId
    content: ContentBlock


# Session updates: everything that an agent reports about a session.


class ContentChunk(Wire):
    """One more block of a message."""

    message_id: MessageId
    content: ContentBlock


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    """One more block of a message of the user."""


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """One more block of a message of the agent."""


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """One more block of the agent's thinking."""


class MessageUpdateBase(Patch):
    """Creates or patches a message; `content` replaces all previous content."""

    message_id: MessageId
    content: Lenient[LenientList[ContentBlock] | None | UnsetType] = UNSET


class UserMessage(MessageUpdateBase, tag_field="sessionUpdate", tag="user_message"):
    """A message of the user; it confirms that a prompt is inserted in the conversation."""


class AgentMessage(MessageUpdateBase, tag_field="sessionUpdate", tag="agent_message"):
    """A message of the agent."""


class AgentThought(MessageUpdateBase, tag_field="sessionUpdate", tag="agent_thought"):
    """A piece of the agent's thinking."""


class SessionInfoUpdate(Patch, tag_field="sessionUpdate", tag="session_info_update"):
    """Patches the session's metadata; `updated_at` is RFC 3339."""

    title: Lenient[str | None | UnsetType] = UNSET
    updated_at: Lenient[DateTime | None | UnsetType] = UNSET


class Cost(Wire):
    """The cost of the session so far; `currency` is an ISO 4217 code or another unit."""

    amount: float
    currency: str


class UsageUpdate(Wire, tag_field="sessionUpdate", tag="usage_update"):
    """The used part of the context window, in tokens; `cost` is three-state."""

    used: UInt64
    size: UInt64
    cost: Lenient[Cost | None | UnsetType] = UNSET


SessionUpdate: TypeAlias = Open[
    UserMessageChunk
    | UserMessage
    | AgentMessageChunk
    | AgentMessage
    | AgentThoughtChunk
    | AgentThought
    | StateUpdate
    | ToolCallContentChunk
    | ToolCallUpdate
    | TerminalUpdate
    | TerminalOutputChunk
    | PlanUpdate
    | Unstable[PlanRemoved]
    | AvailableCommandsUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | Unstable[SubagentUpdate]
    | Unstable[SessionMessage]
    | Unstable[SessionMessageChunk]
]


class UpdateSessionNotification(Wire):
    """An update of a session; updates are applied in the order of arrival."""

    session_id: SessionId
    update: SessionUpdate


METHODS: tuple[Method, ...] = (
    Method(
        name="session/set_config_option",
        call="set_session_config_option",
        doc="Set a config option; return all options.",
        params=SetSessionConfigOptionRequest,
        result=SetSessionConfigOptionResponse,
        to="agent",
        gate="agent.session",
    ),
    Method(
        name="session/update",
        call="session_update",
        doc="Handle an update of a session; updates arrive in order.",
        params=UpdateSessionNotification,
        to="client",
    ),
)
