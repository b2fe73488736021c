"""The scalars of v2: ids, paths, encoded text."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from accord.wire.base import Int64, UInt16

__all__ = (
    "AbsolutePath",
    "AuthMethodId",
    "Base64",
    "CompactionId",
    "DateTime",
    "ElicitationId",
    "MediaType",
    "MessageId",
    "PermissionOptionId",
    "PlanId",
    "ProtocolVersion",
    "ProviderId",
    "Regex",
    "RequestId",
    "SessionConfigGroupId",
    "SessionConfigId",
    "SessionConfigValueId",
    "SessionId",
    "SessionListCursor",
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
SessionConfigGroupId: TypeAlias = str
SessionConfigId: TypeAlias = str
SessionConfigValueId: TypeAlias = str
SessionId: TypeAlias = str
SessionListCursor: TypeAlias = str
TerminalId: TypeAlias = str
ToolCallId: TypeAlias = str

RequestId: TypeAlias = Int64 | str
ProtocolVersion: TypeAlias = UInt16

# Named for what they hold; the schema checks none of them.
AbsolutePath: TypeAlias = str
MediaType: TypeAlias = str
Base64: TypeAlias = Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})]
DateTime: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Regex: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "regex"})]
Uri: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
