"""Compaction of the context, and notices to the user (v2)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from accord.v2.content import ContentBlock
from accord.v2.ids import CompactionId
from accord.wire.base import UNSET, Lenient, LenientList, OpenEnum, Patch, UnsetType, Wire

__all__ = (
    "CompactionStatus",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "Notice",
    "NoticeSeverity",
)

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
