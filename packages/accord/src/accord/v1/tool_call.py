"""Tool calls: the agent's operations as the user sees them (v1)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from accord.v1.content import ContentBlock
from accord.v1.ids import TerminalId, ToolCallId
from accord.wire.base import Lenient, LenientList, UInt32, Wire

__all__ = (
    "Content",
    "Diff",
    "Terminal",
    "ToolCall",
    "ToolCallContent",
    "ToolCallDetails",
    "ToolCallLocation",
    "ToolCallStatus",
    "ToolCallUpdate",
    "ToolKind",
)

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
