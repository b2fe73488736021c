"""Ids: plain strings with different names, for the reader only (v1)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from accord.wire.base import Int64

__all__ = (
    "AuthMethodId",
    "CompactionId",
    "ElicitationId",
    "MessageId",
    "PermissionOptionId",
    "PlanId",
    "ProviderId",
    "RequestId",
    "SessionConfigGroupId",
    "SessionConfigId",
    "SessionConfigValueId",
    "SessionId",
    "SessionModeId",
    "TerminalId",
    "ToolCallId",
    "Uri",
)

AuthMethodId: TypeAlias = str
CompactionId: TypeAlias = str
ElicitationId: TypeAlias = str
MessageId: TypeAlias = str
PermissionOptionId: TypeAlias = str
PlanId: TypeAlias = str
ProviderId: TypeAlias = str
# null is read in v1 but never sent.
RequestId: TypeAlias = Int64 | str | None
SessionConfigGroupId: TypeAlias = str
SessionConfigId: TypeAlias = str
SessionConfigValueId: TypeAlias = str
SessionId: TypeAlias = str
SessionModeId: TypeAlias = str
TerminalId: TypeAlias = str
ToolCallId: TypeAlias = str
Uri: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
