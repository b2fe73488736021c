"""What an agent of version 1 reports: commands, config options, tool calls, plans, subagents.

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

from accord.v1.content import (
    CompactionId,
    ContentBlock,
    Error,
    MessageId,
    PlanId,
    SessionConfigGroupId,
    SessionConfigId,
    SessionConfigValueId,
    SessionId,
    SessionModeId,
    TerminalId,
    ToolCallId,
)
from accord.wire.base import (
    UNSET,
    ByShape,
    KeepsMore,
    Lenient,
    LenientList,
    Open,
    OpenEnum,
    Patch,
    UInt32,
    UInt64,
    UnsetType,
    Unstable,
    Wire,
)
from accord.wire.protocol import (
    Method,
)

__all__ = (
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "AvailableCommand",
    "AvailableCommandInput",
    "AvailableCommandsUpdate",
    "CompactionStatus",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "ConfigOptionUpdate",
    "Content",
    "ContentChunk",
    "Cost",
    "CurrentModeUpdate",
    "Diff",
    "IdleState",
    "IdleStopReason",
    "Notice",
    "NoticeSeverity",
    "Plan",
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
    "RunningState",
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
    "SessionNotification",
    "SessionState",
    "SessionUpdate",
    "SetSessionConfigOptionBase",
    "SetSessionConfigOptionBoolean",
    "SetSessionConfigOptionId",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse",
    "SubagentSessionCapabilities",
    "SubagentUpdate",
    "Terminal",
    "ToolCall",
    "ToolCallContent",
    "ToolCallDetails",
    "ToolCallLocation",
    "ToolCallStatus",
    "ToolCallUpdate",
    "ToolKind",
    "UnknownState",
    "UnstructuredCommandInput",
    "Usage",
    "UsageUpdate",
    "UserMessageChunk",
)


# Slash commands of a session.


class UnstructuredCommandInput(Wire):
    """All text after the command is its input; `hint` is shown while it is empty."""

    hint: str


AvailableCommandInput: TypeAlias = UnstructuredCommandInput


class AvailableCommand(Wire):
    """A command, which a prompt calls with `/name` at its beginning."""

    name: str
    description: str
    input: Lenient[AvailableCommandInput | None] = None


class AvailableCommandsUpdate(Wire, tag_field="sessionUpdate", tag="available_commands_update"):
    """All commands of the session."""

    available_commands: Lenient[LenientList[AvailableCommand]]


# Config options: the settings of a session that the user can change.

SessionConfigOptionCategory: TypeAlias = OpenEnum[
    Literal["mode", "model", "model_config", "thought_level"]
]


class SessionConfigOptionBase(Wire):
    """The fields of config options of every type."""

    id: SessionConfigId
    name: str
    description: Lenient[str | None] = None
    category: Lenient[SessionConfigOptionCategory | None] = None  # for its place on the screen


class SessionConfigSelectOption(Wire):
    """One value of an option."""

    value: SessionConfigValueId
    name: str
    description: Lenient[str | None] = None


class SessionConfigSelectGroup(Wire):
    """Values under a common heading."""

    group: SessionConfigGroupId
    name: str
    options: Lenient[LenientList[SessionConfigSelectOption]]


SessionConfigSelectOptions: TypeAlias = ByShape[
    list[SessionConfigSelectOption] | list[SessionConfigSelectGroup]
]


class SessionConfigSelect(SessionConfigOptionBase, tag_field="type", tag="select"):
    """An option whose value is one of several."""

    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions


class SessionConfigBoolean(SessionConfigOptionBase, tag_field="type", tag="boolean"):
    """An option that is on or off."""

    current_value: bool


SessionConfigOption: TypeAlias = SessionConfigSelect | SessionConfigBoolean


class SetSessionConfigOptionBase(Wire):
    """The session and the option to set."""

    session_id: SessionId
    config_id: SessionConfigId


class SetSessionConfigOptionBoolean(SetSessionConfigOptionBase, tag_field="type", tag="boolean"):
    """Sets a boolean option; a value of another type is an error (A-56)."""

    value: bool


class SetSessionConfigOptionId(SetSessionConfigOptionBase):
    """Sets an option to one of its values."""

    value: SessionConfigValueId


SetSessionConfigOptionRequest: TypeAlias = ByShape[
    SetSessionConfigOptionBoolean | SetSessionConfigOptionId
]


class SetSessionConfigOptionResponse(Wire):
    """All options with their current values."""

    config_options: Lenient[LenientList[SessionConfigOption]]


class ConfigOptionUpdate(Wire, tag_field="sessionUpdate", tag="config_option_update"):
    """The options changed; contains all of them."""

    config_options: Lenient[LenientList[SessionConfigOption]]


# Tool calls: the agent's operations as the user sees them.

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
ToolCallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]


class Content(Wire, tag_field="type", tag="content"):
    """A content block that a tool call produced."""

    content: ContentBlock


class Diff(Wire, tag_field="type", tag="diff"):
    """A change of one file: its whole text before and after."""

    path: str  # absolute
    new_text: str
    old_text: Lenient[str | None] = None  # None: the file is new


class Terminal(Wire, tag_field="type", tag="terminal"):
    """A terminal of the client whose output belongs to the tool call."""

    terminal_id: TerminalId


ToolCallContent: TypeAlias = Content | Diff | Terminal


class ToolCallLocation(Wire):
    """A location in a file that the tool works on."""

    path: str
    line: Lenient[UInt32 | None] = None  # the first line is 1


class ToolCallDetails(Wire):
    """The changed fields of a tool call; None keeps the previous value."""

    tool_call_id: ToolCallId
    title: Lenient[str | None] = None
    name: Lenient[str | None] = None
    kind: Lenient[ToolKind | None] = None
    status: Lenient[ToolCallStatus | None] = None
    content: Lenient[LenientList[ToolCallContent] | None] = None  # replaces the whole list
    locations: Lenient[LenientList[ToolCallLocation] | None] = None  # replaces the whole list
    raw_input: Lenient[Any] = None
    raw_output: Lenient[Any] = None


class ToolCallUpdate(ToolCallDetails, tag_field="sessionUpdate", tag="tool_call_update"):
    """A tool call changed."""


class ToolCall(Wire, tag_field="sessionUpdate", tag="tool_call"):
    """A tool call begins."""

    tool_call_id: ToolCallId
    title: str
    name: Lenient[str | None] = None  # the tool's name in programs
    kind: Lenient[ToolKind] = "other"
    status: Lenient[ToolCallStatus] = "pending"
    content: Lenient[LenientList[ToolCallContent]] = []
    locations: Lenient[LenientList[ToolCallLocation]] = []
    raw_input: Lenient[Any] = None
    raw_output: Lenient[Any] = None


# Plans: the steps that the agent intends to do.

PlanEntryPriority: TypeAlias = Literal["high", "medium", "low"]
PlanEntryStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class PlanEntry(Wire):
    """One step."""

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class Plan(Wire, tag_field="sessionUpdate", tag="plan"):
    """The complete plan of the session; it replaces the previous one."""

    entries: Lenient[LenientList[PlanEntry]]


class PlanItems(Wire, tag_field="type", tag="items"):
    """A plan as a list of steps."""

    __unstable__: ClassVar[bool] = True

    plan_id: PlanId
    entries: Lenient[LenientList[PlanEntry]]


class PlanFile(Wire, tag_field="type", tag="file"):
    """A plan in a file."""

    __unstable__: ClassVar[bool] = True

    plan_id: PlanId
    uri: str


class PlanMarkdown(Wire, tag_field="type", tag="markdown"):
    """A plan as Markdown."""

    __unstable__: ClassVar[bool] = True

    plan_id: PlanId
    content: str


PlanUpdateContent: TypeAlias = PlanItems | PlanFile | PlanMarkdown


class PlanUpdate(Wire, tag_field="sessionUpdate", tag="plan_update"):
    """One of several plans, complete; it replaces the plan with the same id."""

    __unstable__: ClassVar[bool] = True

    plan: PlanUpdateContent


class PlanRemoved(Wire, tag_field="sessionUpdate", tag="plan_removed"):
    """One of several plans was removed."""

    __unstable__: ClassVar[bool] = True

    plan_id: PlanId


# The state of a session: a snapshot, sent for subagents (unstable).

IdleStopReason: TypeAlias = OpenEnum[
    Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"]
]


class Usage(Wire):
    """Counts of tokens; v1 does not define for which span of work (A-47)."""

    __unstable__: ClassVar[bool] = True

    total_tokens: UInt64
    input_tokens: UInt64
    output_tokens: UInt64
    thought_tokens: Lenient[UInt64 | None] = None
    cached_read_tokens: Lenient[UInt64 | None] = None
    cached_write_tokens: Lenient[UInt64 | None] = None


class RunningState(Wire, tag_field="state", tag="running"):
    """The session is working."""

    __unstable__: ClassVar[bool] = True


class IdleState(Wire, KeepsMore, tag_field="state", tag="idle"):
    """Nothing runs; `error` explains the stop reason error."""

    __unstable__: ClassVar[bool] = True

    stop_reason: Lenient[IdleStopReason | None] = None
    error: Lenient[Error | None] = None
    usage: Lenient[Usage | None] = None


class RequiresActionState(Wire, tag_field="state", tag="requires_action"):
    """Work waits for the user."""

    __unstable__: ClassVar[bool] = True


class UnknownState(Wire, tag_field="state", tag="unknown"):
    """The state is unknown to the agent."""

    __unstable__: ClassVar[bool] = True


SessionState: TypeAlias = Open[RunningState | IdleState | RequiresActionState | UnknownState]


# Events of a session outside its turns: compactions and notices.

NoticeSeverity: TypeAlias = OpenEnum[Literal["info", "warning", "error"]]
CompactionStatus: TypeAlias = OpenEnum[Literal["in_progress", "completed", "failed", "cancelled"]]


class Notice(Wire, tag_field="sessionUpdate", tag="notice"):
    """A message to the user that is not part of the history."""

    severity: NoticeSeverity
    title: Annotated[str, Meta(min_length=1)]
    description: Lenient[str | None] = None


class CompactionUpdate(Patch, tag_field="sessionUpdate", tag="compaction_update"):
    """A compaction starts, continues or ends. UNSET keeps the previous value, None clears it."""

    compaction_id: CompactionId
    status: CompactionStatus
    summary: Lenient[LenientList[ContentBlock] | None | UnsetType] = UNSET
    error: Lenient[str | None | UnsetType] = UNSET


class CompactionSummaryChunk(Wire, tag_field="sessionUpdate", tag="compaction_summary_chunk"):
    """One more block of a compaction's summary."""

    compaction_id: CompactionId
    content: ContentBlock


# Sessions that a session started, and messages between them (unstable).


class SessionCancelCapabilities(Wire):
    """The subagent can be cancelled."""

    __unstable__: ClassVar[bool] = True


class SubagentSessionCapabilities(Wire):
    """What the client can do with a subagent."""

    __unstable__: ClassVar[bool] = True

    cancel: Lenient[SessionCancelCapabilities | None] = None


class SubagentUpdate(Patch, tag_field="sessionUpdate", tag="subagent_update"):
    """A new or changed subagent. UNSET keeps the previous value, None clears it."""

    __unstable__: ClassVar[bool] = True

    session_id: SessionId  # of the subagent
    title: Lenient[str | None | UnsetType] = UNSET
    description: Lenient[str | None | UnsetType] = UNSET
    capabilities: Lenient[SubagentSessionCapabilities | None | UnsetType] = UNSET
    state: Lenient[SessionState | None | UnsetType] = UNSET
    cwd: str | None | UnsetType = UNSET  # while unknown: the parent's
    additional_directories: list[str] | None | UnsetType = UNSET  # while unknown: the parent's


class SessionMessage(Patch, tag_field="sessionUpdate", tag="session_message"):
    """A message between sessions. UNSET keeps the previous value, None clears it."""

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
    """One more block of a message; a different `message_id` begins another message."""

    content: ContentBlock
    message_id: Lenient[MessageId | None] = None


class UserMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="user_message_chunk"):
    """A block of a user message."""


class AgentMessageChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """A block of an agent message."""


class AgentThoughtChunk(ContentChunk, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """A block of the agent's thinking."""


class CurrentModeUpdate(Wire, tag_field="sessionUpdate", tag="current_mode_update"):
    """The mode changed."""

    current_mode_id: SessionModeId


# Clearing all of `_meta` is read in v1 too.
class SessionInfoUpdate(Patch, tag_field="sessionUpdate", tag="session_info_update"):
    """The session's entry in the list changed. UNSET keeps a field, None clears it."""

    title: Lenient[str | None | UnsetType] = UNSET
    updated_at: Lenient[str | None | UnsetType] = UNSET  # ISO 8601


class Cost(Wire):
    """The cost of the session so far."""

    amount: float
    currency: str  # an ISO 4217 code or another unit, credits for instance


class UsageUpdate(Wire, tag_field="sessionUpdate", tag="usage_update"):
    """The used context and its size, in tokens."""

    used: UInt64
    size: UInt64
    cost: Lenient[Cost | None] = None


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | Unstable[PlanUpdate]
    | Unstable[PlanRemoved]
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | Unstable[SubagentUpdate]
    | Unstable[SessionMessage]
    | Unstable[SessionMessageChunk]
)


class SessionNotification(Wire):
    """An update of a session."""

    session_id: SessionId
    update: SessionUpdate


METHODS: tuple[Method, ...] = (
    Method(
        name="session/set_config_option",
        call="set_session_config_option",
        doc="Set a config option; return all options.",
        params=SetSessionConfigOptionRequest,
        result=SetSessionConfigOptionResponse,
        to="agent",  # if the setup response had `configOptions`, which is not a capability
    ),
    Method(
        name="session/update",
        call="session_update",
        doc="Handle an update of a session; updates arrive in order.",
        params=SessionNotification,
        to="client",
    ),
)
