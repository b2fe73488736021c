"""The updates of a session in version-neutral form, and the request for a permission.

Each update is sent, and may be stored.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast

from msgspec import UNSET, Struct, UnsetType, field

from accord.types.content import ContentBlock
from accord.types.permission import PermissionOption
from accord.types.session import (
    AvailableCommand,
    ContextUsage,
    PlanEntry,
    SessionOption,
    TokenUsage,
)
from accord.types.tool_calls import ToolCallLocation, ToolContent, ToolKind, ToolStatus

MessageRole: TypeAlias = Literal["user", "agent", "thought"]


class MessageUpdate(Struct, frozen=True, omit_defaults=True, tag="said"):
    """A chunk of a message; a message of the user is complete."""

    role: MessageRole
    message_id: str
    content: tuple[ContentBlock, ...]


class ToolCallUpdate(Struct, frozen=True, omit_defaults=True, tag="tool", kw_only=True):
    """A new or changed tool call; UNSET keeps the value, a list replaces the list."""

    id: str
    is_new: bool = field(default=False, name="begins")
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: ToolKind | UnsetType = UNSET
    status: ToolStatus | UnsetType = UNSET
    content: tuple[ToolContent, ...] | UnsetType = UNSET
    locations: tuple[ToolCallLocation, ...] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    cancellable: bool | UnsetType = UNSET  # individually, while it runs


class ToolContentUpdate(Struct, frozen=True, omit_defaults=True, tag="part"):
    """An item appended to a tool call's content; `continues` appends to the last text."""

    id: str
    content: ToolContent
    continues: bool = field(default=False, name="goes_on")


class PlanUpdate(Struct, frozen=True, omit_defaults=True, tag="plan"):
    """All entries of a plan."""

    id: str
    entries: tuple[PlanEntry, ...]


class OptionsUpdate(Struct, frozen=True, omit_defaults=True, tag="options"):
    """All config options; `mode_changed` if the value of the mode is new."""

    options: tuple[SessionOption, ...]
    mode_changed: bool = False


class CommandsUpdate(Struct, frozen=True, omit_defaults=True, tag="commands"):
    """All commands."""

    commands: tuple[AvailableCommand, ...]


class TitleUpdate(Struct, frozen=True, omit_defaults=True, tag="title"):
    """The new title of the session."""

    title: str | None


class ContextUsageUpdate(Struct, frozen=True, omit_defaults=True, tag="usage"):
    """How full the model's context is."""

    usage: ContextUsage


class TerminalStarted(Struct, frozen=True, omit_defaults=True, tag="terminal"):
    """A command of the agent was started."""

    id: str
    command: str
    cwd: str
    cancellable: bool = False  # individually, while it runs


class TerminalOutputUpdate(Struct, frozen=True, omit_defaults=True, tag="output"):
    """Output of a command of the agent."""

    id: str
    data: bytes


class TerminalExited(Struct, frozen=True, omit_defaults=True, tag="exit"):
    """A command of the agent has ended."""

    id: str
    exit_code: int | None = None
    signal: str | None = None


class TurnError(Struct, frozen=True):
    """The error of a failed turn, as the client receives it."""

    code: int
    message: str
    data: Any = UNSET


class TurnEnded(Struct, frozen=True, omit_defaults=True, tag="ended"):
    """The end of a turn; `failure` belongs to the stop reason "error"."""

    stop_reason: str
    failure: TurnError | None = None
    tokens: TokenUsage | None = None


class PlanMarkdownUpdate(Struct, frozen=True, omit_defaults=True, tag="plan_text"):
    """A plan written as Markdown."""

    id: str
    text: str


class PlanFileUpdate(Struct, frozen=True, omit_defaults=True, tag="plan_link"):
    """A plan that is in a file."""

    id: str
    uri: str


class PlanRemoved(Struct, frozen=True, omit_defaults=True, tag="plan_gone"):
    """A plan was removed."""

    id: str


class NoticeUpdate(Struct, frozen=True, omit_defaults=True, tag="notice"):
    """A notice outside the conversation; it is not stored."""

    severity: str
    title: str
    description: str | None = None


class CompactionUpdate(Struct, frozen=True, omit_defaults=True, tag="compaction"):
    """A compaction, or its end."""

    id: str
    status: str
    error: str | UnsetType = UNSET
    summary: tuple[ContentBlock, ...] | UnsetType = UNSET  # all of it, in a replay


class CompactionSummaryUpdate(Struct, frozen=True, omit_defaults=True, tag="compaction_part"):
    """A chunk of the summary of a compaction."""

    id: str
    content: ContentBlock


class SubagentUpdate(Struct, frozen=True, omit_defaults=True, tag="subagent", kw_only=True):
    """A subagent of this session and its state; UNSET keeps the value."""

    id: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    additional_directories: tuple[str, ...] | UnsetType = field(default=UNSET, name="additional")
    cancellable: bool | UnsetType = UNSET
    state: Literal["running", "requires_action", "idle"] | UnsetType = UNSET
    stop_reason: str | None = None
    tokens: TokenUsage | None = None
    background: tuple[tuple[str, str], ...] = ()


class SessionMessageUpdate(
    Struct, frozen=True, omit_defaults=True, tag="session_said", kw_only=True
):
    """A message from one session to another, in one of the two transcripts."""

    id: str
    sender: str
    recipient: str
    sender_message_id: str | UnsetType = UNSET
    recipient_message_id: str | UnsetType = UNSET
    content: tuple[ContentBlock, ...]


class Remembered(Struct, frozen=True, omit_defaults=True, tag="remembered"):
    """What the agent remembers of the session; it is stored, and never sent.

    `keep` items of the list that was remembered before are followed by those of `value`, a list;
    without it, `value` is all that is remembered.
    """

    value: Any
    keep: int | None = None

    def after(self, before: Any) -> Any:
        """Return what is remembered after this, given what was before."""
        known: list[Any] = cast("list[Any]", before) if isinstance(before, list) else []
        return self.value if self.keep is None else [*known[: self.keep], *self.value]


Update: TypeAlias = (
    MessageUpdate
    | ToolCallUpdate
    | ToolContentUpdate
    | PlanUpdate
    | OptionsUpdate
    | CommandsUpdate
    | TitleUpdate
    | ContextUsageUpdate
    | TerminalStarted
    | TerminalOutputUpdate
    | TerminalExited
    | TurnEnded
    | PlanMarkdownUpdate
    | PlanFileUpdate
    | PlanRemoved
    | NoticeUpdate
    | CompactionUpdate
    | CompactionSummaryUpdate
    | SubagentUpdate
    | SessionMessageUpdate
    | Remembered
)


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """A permission request for a tool call."""

    title: str
    description: str | None
    options: tuple[PermissionOption, ...]
    tool: ToolCallUpdate
