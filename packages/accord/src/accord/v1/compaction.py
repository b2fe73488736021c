"""Events of a session outside its turns: compactions and notices (v1)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from accord.v1.content import ContentBlock
from accord.v1.ids import CompactionId
from accord.wire.base import (
    UNSET,
    Lenient,
    LenientList,
    OpenEnum,
    Patch,
    UnsetType,
    Wire,
)

__all__ = (
    "CompactionStatus",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "Notice",
    "NoticeSeverity",
)

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
