"""What a session shows, the same in both versions: each report is sent, and may be stored."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from accord.types.content import Content
from accord.types.session import Command, PlanEntry, SessionOption, Tokens, Usage
from accord.types.tool_calls import Location, ToolContent, ToolKind, ToolStatus

__all__ = (
    "CommandsReport",
    "CompactionPart",
    "CompactionReport",
    "Ended",
    "Failure",
    "MessageRole",
    "NoticeReport",
    "OptionsReport",
    "PlanGone",
    "PlanLink",
    "PlanReport",
    "PlanText",
    "Report",
    "Said",
    "SessionSaid",
    "SubagentReport",
    "TerminalEnded",
    "TerminalOutput",
    "TerminalStarted",
    "TitleReport",
    "ToolPart",
    "ToolReport",
    "UsageReport",
)

MessageRole: TypeAlias = Literal["user", "agent", "thought"]


class Said(Struct, frozen=True, omit_defaults=True, tag="said"):
    """One more piece of a message; a message of the user comes whole."""

    role: MessageRole
    message_id: str
    content: tuple[Content, ...]


class ToolReport(Struct, frozen=True, omit_defaults=True, tag="tool", kw_only=True):
    """A tool call begins or changes; UNSET keeps what is known, a list replaces the list."""

    id: str
    begins: bool = False
    title: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: ToolKind | UnsetType = UNSET
    status: ToolStatus | UnsetType = UNSET
    content: tuple[ToolContent, ...] | UnsetType = UNSET
    locations: tuple[Location, ...] | UnsetType = UNSET
    raw_input: Any = UNSET
    raw_output: Any = UNSET
    cancellable: bool | UnsetType = UNSET  # by itself, while it runs


class ToolPart(Struct, frozen=True, omit_defaults=True, tag="part"):
    """One more item of what a tool call shows; `goes_on` if it is text that goes on."""

    id: str
    content: ToolContent
    goes_on: bool = False


class PlanReport(Struct, frozen=True, omit_defaults=True, tag="plan"):
    """A plan as it is now, whole."""

    id: str
    entries: tuple[PlanEntry, ...]


class OptionsReport(Struct, frozen=True, omit_defaults=True, tag="options"):
    """All config options as they are now; `mode_changed` if the mode is among what changed."""

    options: tuple[SessionOption, ...]
    mode_changed: bool = False


class CommandsReport(Struct, frozen=True, omit_defaults=True, tag="commands"):
    """All commands that there are now."""

    commands: tuple[Command, ...]


class TitleReport(Struct, frozen=True, omit_defaults=True, tag="title"):
    """The session has another title."""

    title: str | None


class UsageReport(Struct, frozen=True, omit_defaults=True, tag="usage"):
    """How full the context is."""

    usage: Usage


class TerminalStarted(Struct, frozen=True, omit_defaults=True, tag="terminal"):
    """A command of the agent runs."""

    id: str
    command: str
    cwd: str
    cancellable: bool = False  # by itself, while it runs


class TerminalOutput(Struct, frozen=True, omit_defaults=True, tag="output"):
    """A command of the agent has printed something."""

    id: str
    data: bytes


class TerminalEnded(Struct, frozen=True, omit_defaults=True, tag="exit"):
    """A command of the agent has ended."""

    id: str
    exit_code: int | None = None
    signal: str | None = None


class Failure(Struct, frozen=True):
    """Why a turn failed, as far as the client may know."""

    code: int
    message: str
    data: Any = UNSET


class Ended(Struct, frozen=True, omit_defaults=True, tag="ended"):
    """A turn is over; `failure` goes with the stop reason "error"."""

    stop_reason: str
    failure: Failure | None = None
    tokens: Tokens | None = None


class PlanText(Struct, frozen=True, omit_defaults=True, tag="plan_text"):
    """A plan written as Markdown."""

    id: str
    text: str


class PlanLink(Struct, frozen=True, omit_defaults=True, tag="plan_link"):
    """A plan that is in a file."""

    id: str
    uri: str


class PlanGone(Struct, frozen=True, omit_defaults=True, tag="plan_gone"):
    """A plan is dropped."""

    id: str


class NoticeReport(Struct, frozen=True, omit_defaults=True, tag="notice"):
    """A word to the user that is no part of the conversation; it is not stored."""

    severity: str
    title: str
    description: str | None = None


class CompactionReport(Struct, frozen=True, omit_defaults=True, tag="compaction"):
    """The context is being shortened, or that has ended."""

    id: str
    status: str
    error: str | UnsetType = UNSET
    summary: tuple[Content, ...] | UnsetType = UNSET  # all of it, in a replay


class CompactionPart(Struct, frozen=True, omit_defaults=True, tag="compaction_part"):
    """One more piece of what the context was shortened to."""

    id: str
    content: Content


class SubagentReport(Struct, frozen=True, omit_defaults=True, tag="subagent", kw_only=True):
    """A session begun by this one, and what it does; UNSET keeps what is known."""

    id: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    additional: tuple[str, ...] | UnsetType = UNSET
    cancellable: bool | UnsetType = UNSET
    state: Literal["running", "requires_action", "idle"] | UnsetType = UNSET
    stop_reason: str | None = None
    tokens: Tokens | None = None
    background: tuple[tuple[str, str], ...] = ()


class SessionSaid(Struct, frozen=True, omit_defaults=True, tag="session_said", kw_only=True):
    """A message from one session to another, as one of them sees it."""

    id: str
    sender: str
    recipient: str
    sender_message_id: str | UnsetType = UNSET
    recipient_message_id: str | UnsetType = UNSET
    content: tuple[Content, ...]


Report: TypeAlias = (
    Said
    | ToolReport
    | ToolPart
    | PlanReport
    | OptionsReport
    | CommandsReport
    | TitleReport
    | UsageReport
    | TerminalStarted
    | TerminalOutput
    | TerminalEnded
    | Ended
    | PlanText
    | PlanLink
    | PlanGone
    | NoticeReport
    | CompactionReport
    | CompactionPart
    | SubagentReport
    | SessionSaid
)
