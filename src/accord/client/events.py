"""What happens in a session, as a client sees it: the same events in every version.

An event says what is so from now on, so a transcript is what its events add up to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from accord.errors import RequestError
from accord.types.content import Annotations, ContentBlock
from accord.types.permission import PermissionOption
from accord.types.session import (
    AvailableCommand,
    ContextUsage,
    PlanEntry,
    SessionOption,
    StopReason,
    TokenUsage,
)
from accord.types.tool_calls import ToolCallLocation, ToolContent, ToolKind, ToolStatus

__all__ = (
    "AgentTerminal",
    "CommandsChanged",
    "Compaction",
    "ContentChunk",
    "Decision",
    "Event",
    "MessageReplaced",
    "ModeChanged",
    "Notice",
    "OptionsChanged",
    "PermissionDecided",
    "PermissionRequest",
    "Plan",
    "Role",
    "SessionMessage",
    "StateChanged",
    "Subagent",
    "TerminalOutputChunk",
    "Text",
    "Thought",
    "TitleChanged",
    "ToolCall",
    "UnknownUpdate",
    "UpdatedAtChanged",
    "UsageChanged",
    "UserText",
)

Role: TypeAlias = Literal["agent", "thought", "user"]
# The `_meta` of an update; where one update is several events, each has it.
Meta: TypeAlias = dict[str, Any]


class Text(Struct, frozen=True, gc=False):
    """The agent says more; read all of a message as Markdown."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None  # of the content block, as is `content_meta`
    content_meta: Meta | None = None
    meta: Meta | None = None


class Thought(Struct, frozen=True, gc=False):
    """The agent thinks more."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None  # of the content block, as is `content_meta`
    content_meta: Meta | None = None
    meta: Meta | None = None


class UserText(Struct, frozen=True, gc=False):
    """The user said something: a prompt of ours, of somebody else, or in a replay."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None  # of the content block, as is `content_meta`
    content_meta: Meta | None = None
    meta: Meta | None = None


class ContentChunk(Struct, frozen=True):
    """A message goes on with something other than text."""

    content: ContentBlock
    role: Role = "agent"
    message_id: str | None = None
    meta: Meta | None = None


class MessageReplaced(Struct, frozen=True):
    """A message has other content than it had so far: here is all of it."""

    role: Role
    message_id: str
    content: tuple[ContentBlock, ...]
    meta: Meta | None = None


class ToolCall(Struct, frozen=True, kw_only=True):
    """A tool call as it stands now; `changed` names the fields that this event brought."""

    id: str
    title: str = ""
    kind: ToolKind = "other"
    status: ToolStatus = "pending"
    name: str | None = None  # the tool's name in programs; it grants nothing
    content: Sequence[ToolContent] = ()  # a tuple, or something that equals one
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    cancellable: bool = False
    changed: tuple[str, ...] = ()
    meta: Meta | None = None

    @property
    def is_final(self) -> bool:
        """Whether nothing more is to be expected; an unknown status is not the end."""
        return self.status in {"completed", "failed", "cancelled"}


class Plan(Struct, frozen=True):
    """A plan, all of it; one of several where it has an id. `removed`: it is dropped."""

    entries: tuple[PlanEntry, ...] = ()
    id: str | None = None
    markdown: str | None = None
    uri: str | None = None
    removed: bool = False
    meta: Meta | None = None


class CommandsChanged(Struct, frozen=True):
    """The slash commands that there are now."""

    commands: tuple[AvailableCommand, ...]
    meta: Meta | None = None


class ModeChanged(Struct, frozen=True):
    """The mode is another one."""

    mode: str
    meta: Meta | None = None


class OptionsChanged(Struct, frozen=True):
    """All options as they are now."""

    options: tuple[SessionOption, ...]
    meta: Meta | None = None


class UsageChanged(Struct, frozen=True):
    """How full the context is, and what the session has cost."""

    usage: ContextUsage
    meta: Meta | None = None


class TitleChanged(Struct, frozen=True):
    """The session has another title, or none."""

    title: str | None
    meta: Meta | None = None


class UpdatedAtChanged(Struct, frozen=True):
    """When the session last changed, as RFC 3339, or None where the agent no longer says."""

    updated_at: str | None
    meta: Meta | None = None


class Notice(Struct, frozen=True):
    """A word to the user that is no part of the conversation."""

    severity: Literal["info", "warning", "error"] | str
    title: str
    description: str | None = None
    meta: Meta | None = None


class Compaction(Struct, frozen=True, kw_only=True):
    """The agent shortens its memory of the conversation."""

    id: str
    status: Literal["in_progress", "completed", "failed", "cancelled"] | str
    summary: tuple[ContentBlock, ...] = ()
    error: str | None = None
    meta: Meta | None = None


class AgentTerminal(Struct, frozen=True, kw_only=True):
    """A terminal as it stands now; what it prints comes as `TerminalOutputChunk`."""

    id: str
    command: str | None = None
    cwd: str | None = None
    exited: bool = False
    exit_code: int | None = None
    signal: str | None = None
    size: tuple[int, int] | None = None  # columns and rows
    cancellable: bool = False
    meta: Meta | None = None


class TerminalOutputChunk(Struct, frozen=True):
    """A terminal printed this; with `afresh` it stands for all that came before, too."""

    id: str
    data: bytes
    replaces: bool = False
    meta: Meta | None = None


class StateChanged(Struct, frozen=True, kw_only=True):
    """What the session is doing; a state that is not known is never idle.

    An idle state may say how the work ended. `background` has the ids of what still runs
    beside it, None where that was not told.
    """

    state: Literal["running", "idle", "requires_action"] | str
    stop_reason: StopReason | None = None
    error: RequestError | None = None
    token_usage: TokenUsage | None = None
    background: tuple[str, ...] | None = None
    meta: Meta | None = None


class Subagent(Struct, frozen=True, kw_only=True):
    """A session that the agent has started for a part of its work, as it stands now.

    Without a `state` nothing is known of what it does; a `cwd` or `roots` that is None is that of
    the session which started it.
    """

    id: str  # of its session: see `ClientSession.subagent`
    title: str | None = None
    description: str | None = None
    state: StateChanged | None = None
    cancellable: bool = False
    cwd: str | None = None
    additional_directories: tuple[str, ...] | None = None  # besides `cwd`
    meta: Meta | None = None


class SessionMessage(Struct, frozen=True, kw_only=True):
    """What one session says to another, all of it so far, as one of the two sees it."""

    id: str
    sender: str | None = None  # ids of sessions
    recipient: str | None = None
    sender_message_id: str | None = None  # its id where the other session has it
    recipient_message_id: str | None = None
    content: tuple[ContentBlock, ...] = ()
    meta: Meta | None = None


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """The agent asks before it acts; `tool_call` or `command` say what it is about."""

    session_id: str
    cwd: str  # of the session
    title: str
    options: tuple[PermissionOption, ...]
    description: str | None = None
    tool_call: ToolCall | None = None
    command: str | None = None


# What a policy decides. An option stands for itself; of the others one is chosen by its kind.
Decision: TypeAlias = (
    Literal["allow", "allow_always", "reject", "reject_always", "cancel"] | PermissionOption
)


class PermissionDecided(Struct, frozen=True):
    """A permission request was answered: by this option, or None when it was cancelled."""

    request: PermissionRequest
    option: PermissionOption | None

    @property
    def allowed(self) -> bool:
        """Whether the agent may go on."""
        return self.option is not None and self.option.allows


class UnknownUpdate(Struct, frozen=True):
    """An update that there is no event for, as it came."""

    raw: Any


Event: TypeAlias = (
    Text
    | Thought
    | UserText
    | ContentChunk
    | MessageReplaced
    | ToolCall
    | Plan
    | CommandsChanged
    | ModeChanged
    | OptionsChanged
    | UsageChanged
    | TitleChanged
    | UpdatedAtChanged
    | Notice
    | Compaction
    | Subagent
    | SessionMessage
    | AgentTerminal
    | TerminalOutputChunk
    | StateChanged
    | PermissionDecided
    | UnknownUpdate
)
