"""Tool calls: the agent's operations as the user sees them (v2)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from accord.v2.content import ContentBlock
from accord.v2.ids import AbsolutePath, MediaType, TerminalId, ToolCallId
from accord.wire.base import (
    UNSET,
    Lenient,
    LenientList,
    Open,
    OpenEnum,
    Patch,
    UnsetType,
    Wire,
)

__all__ = (
    "Content",
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
    "Terminal",
    "ToolCallCancelCapabilities",
    "ToolCallCapabilities",
    "ToolCallContent",
    "ToolCallContentChunk",
    "ToolCallDetails",
    "ToolCallLocation",
    "ToolCallStatus",
    "ToolCallUpdate",
    "ToolKind",
)

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
