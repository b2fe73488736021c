"""The events of a session, the same in both protocol versions.

An event contains the new state of an entity, so a transcript can be built from events alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from accord.client.redaction import Redactable
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
    "UNFINISHED",
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
# The `_meta` of an update; if an update becomes several events, each has it.
Meta: TypeAlias = dict[str, Any]

UNFINISHED = "not finished by the agent"


class Text(Redactable, frozen=True, gc=False):
    """Text that the agent appends to a message; a whole message is Markdown."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None  # of the content block, as is `content_meta`
    content_meta: Meta | None = None
    meta: Meta | None = None


class Thought(Redactable, frozen=True, gc=False):
    """Text that the agent appends to a thought."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None  # of the content block, as is `content_meta`
    content_meta: Meta | None = None
    meta: Meta | None = None


class UserText(Redactable, frozen=True, gc=False):
    """Text of the user: of a prompt from this client or another one, or of a replay."""

    text: str
    message_id: str | None = None
    annotations: Annotations | None = None  # of the content block, as is `content_meta`
    content_meta: Meta | None = None
    meta: Meta | None = None


class ContentChunk(Redactable, frozen=True, gc=True):
    """Content other than text, appended to a message (`v1.ContentChunk`, `v2.ContentChunk`)."""

    content: ContentBlock
    role: Role = "agent"
    message_id: str | None = None
    meta: Meta | None = None


class MessageReplaced(Redactable, frozen=True, gc=True):
    """The agent has replaced the content of a message."""

    role: Role
    message_id: str
    content: tuple[ContentBlock, ...]
    meta: Meta | None = None


class ToolCall(Redactable, frozen=True, kw_only=True, gc=False):
    """A tool call in its current state; `changed` names the changed fields.

    The wire types are `v1.ToolCall` and `v2.ToolCallUpdate`.
    """

    id: str
    title: str = ""
    kind: ToolKind = "other"
    status: ToolStatus = "pending"
    name: str | None = None  # the name of the tool, for programs; not a basis for permissions
    content: Sequence[ToolContent] = ()  # a tuple or an equal sequence
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    cancellable: bool = False
    changed: tuple[str, ...] = ()
    meta: Meta | None = None
    # The turn ended before the agent reported a final status; a later update resets it.
    unfinished: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the status is final. An unknown status is not."""
        return self.status in {"completed", "failed", "cancelled"}

    @property
    def is_open(self) -> bool:
        """Whether the agent is still at it: neither final nor left `unfinished`."""
        return not (self.unfinished or self.is_final)

    @property
    def shown_status(self) -> str:
        """The status for people: "not finished by the agent" if the turn has left it open."""
        return UNFINISHED if self.unfinished and not self.is_final else self.status


class Plan(Redactable, frozen=True, gc=True):
    """A whole plan (`v1.Plan`, `v2.PlanUpdate`); if there are several, each has an id.

    If `removed` is true, the plan no longer exists.
    """

    entries: tuple[PlanEntry, ...] = ()
    id: str | None = None
    markdown: str | None = None
    uri: str | None = None
    removed: bool = False
    meta: Meta | None = None


class CommandsChanged(Redactable, frozen=True, gc=True):
    """The available slash commands have changed."""

    commands: tuple[AvailableCommand, ...]
    meta: Meta | None = None


class ModeChanged(Redactable, frozen=True, gc=True):
    """The mode of the session has changed."""

    mode: str
    meta: Meta | None = None


class OptionsChanged(Redactable, frozen=True, gc=True):
    """The config options have changed: all of them, with their current values."""

    options: tuple[SessionOption, ...]
    meta: Meta | None = None


class UsageChanged(Redactable, frozen=True, gc=True):
    """The context usage or the cost of the session has changed."""

    usage: ContextUsage
    meta: Meta | None = None


class TitleChanged(Redactable, frozen=True, gc=True):
    """The title of the session has changed; None if it was removed."""

    title: str | None
    meta: Meta | None = None


class UpdatedAtChanged(Redactable, frozen=True, gc=True):
    """The time of the last change of the session, as RFC 3339; None if the agent removed it."""

    updated_at: str | None
    meta: Meta | None = None


class Notice(Redactable, frozen=True, gc=True):
    """A notice to the user, outside the conversation (`v1.Notice`, `v2.Notice`)."""

    severity: Literal["info", "warning", "error"] | str
    title: str
    description: str | None = None
    meta: Meta | None = None


class Compaction(Redactable, frozen=True, kw_only=True, gc=True):
    """A compaction of the conversation history by the agent."""

    id: str
    status: Literal["in_progress", "completed", "failed", "cancelled"] | str
    summary: tuple[ContentBlock, ...] = ()
    error: str | None = None
    meta: Meta | None = None


class AgentTerminal(Redactable, frozen=True, kw_only=True, gc=True):
    """A terminal in its current state; its output arrives as `TerminalOutputChunk`."""

    id: str
    command: str | None = None
    cwd: str | None = None
    exited: bool = False
    exit_code: int | None = None
    signal: str | None = None
    size: tuple[int, int] | None = None  # columns and rows
    cancellable: bool = False
    meta: Meta | None = None


class TerminalOutputChunk(Redactable, frozen=True, gc=True):
    """Output of a terminal (`v2.TerminalOutputChunk`).

    If `replaces` is true, it replaces all earlier output.
    """

    id: str
    data: bytes
    replaces: bool = False
    meta: Meta | None = None


class StateChanged(Redactable, frozen=True, kw_only=True, gc=True):
    """The state of the session has changed. An unknown state is not idle.

    An idle state can contain the stop reason. `background` has the ids of background work, None
    if the agent did not report it.
    """

    state: Literal["running", "idle", "requires_action"] | str
    stop_reason: StopReason | None = None
    error: RequestError | None = None
    token_usage: TokenUsage | None = None
    background: tuple[str, ...] | None = None
    meta: Meta | None = None


class Subagent(Redactable, frozen=True, kw_only=True, gc=True):
    """A session that the agent has started for a part of its work, in its current state.

    `state` is None if it is unknown. If `cwd` or `additional_directories` is None, the value of
    the parent session applies.
    """

    id: str  # the session id: see `ClientSession.subagent`
    title: str | None = None
    description: str | None = None
    state: StateChanged | None = None
    cancellable: bool = False
    cwd: str | None = None
    additional_directories: tuple[str, ...] | None = None  # in addition to `cwd`
    meta: Meta | None = None


class SessionMessage(Redactable, frozen=True, kw_only=True, gc=True):
    """A message between two sessions, complete so far, as one of them sees it.

    The wire types are `v1.SessionMessage` and `v2.SessionMessage`.
    """

    id: str
    sender: str | None = None  # ids of sessions
    recipient: str | None = None
    sender_message_id: str | None = None  # its id in the other session
    recipient_message_id: str | None = None
    content: tuple[ContentBlock, ...] = ()
    meta: Meta | None = None


class PermissionRequest(Redactable, frozen=True, kw_only=True, gc=True):
    """A permission request; `tool_call` or `command` describe the action."""

    session_id: str
    cwd: str  # of the session
    title: str
    options: tuple[PermissionOption, ...]
    description: str | None = None
    tool_call: ToolCall | None = None
    command: str | None = None


# The decision of a policy: an option of the request, or the kind of the option to choose.
Decision: TypeAlias = (
    Literal["allow", "allow_always", "reject", "reject_always", "cancel"] | PermissionOption
)


class PermissionDecided(Redactable, frozen=True, gc=True):
    """A permission request was decided; `option` is None if it was cancelled."""

    request: PermissionRequest
    option: PermissionOption | None

    @property
    def allowed(self) -> bool:
        """Whether the action is allowed."""
        return self.option is not None and self.option.allows


class UnknownUpdate(Redactable, frozen=True, gc=True):
    """An update of an unknown type, as received."""

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
