"""Values of version 1: ids, errors, and content blocks."""

from __future__ import annotations

from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
)

from msgspec import (
    Meta,
)

from accord.wire.base import (
    Bare,
    ByShape,
    Int32,
    Int64,
    Lenient,
    LenientList,
    Wire,
)

__all__ = (
    "Annotations",
    "AudioContent",
    "AuthMethodId",
    "BlobResourceContents",
    "CompactionId",
    "ContentBlock",
    "ElicitationId",
    "EmbeddedResource",
    "EmbeddedResourceResource",
    "Error",
    "ErrorCode",
    "ImageContent",
    "MessageId",
    "PermissionOptionId",
    "PlanId",
    "ProviderId",
    "RequestId",
    "ResourceLink",
    "Role",
    "SessionConfigGroupId",
    "SessionConfigId",
    "SessionConfigValueId",
    "SessionId",
    "SessionModeId",
    "TerminalId",
    "TextContent",
    "TextResourceContents",
    "ToolCallId",
    "Uri",
)


# Ids: plain strings with different names, for the reader only.

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


# Errors in responses and at the end of work.

# accord.errors knows the codes that have a meaning; any other may come.
ErrorCode: TypeAlias = Int32


class Error(Bare):
    """A JSON-RPC error; `message` is one short sentence, `data` any JSON."""

    code: ErrorCode
    message: str
    data: Lenient[Any] = None


# Content blocks of prompts, messages and tool results.

Role: TypeAlias = Literal["assistant", "user"]


class Annotations(Wire):
    """Hints for display: audience, last modification, priority."""

    audience: Lenient[LenientList[Role] | None] = None
    last_modified: Lenient[str | None] = None
    priority: Lenient[float | None] = None


class TextContent(Wire, tag_field="type", tag="text"):
    """Text, read as Markdown."""

    text: str
    annotations: Lenient[Annotations | None] = None


class ImageContent(Wire, tag_field="type", tag="image"):
    """An image; `data` is base64."""

    data: str
    mime_type: str
    uri: Lenient[str | None] = None
    annotations: Lenient[Annotations | None] = None


class AudioContent(Wire, tag_field="type", tag="audio"):
    """Audio; `data` is base64."""

    data: str
    mime_type: str
    annotations: Lenient[Annotations | None] = None


class ResourceLink(Wire, tag_field="type", tag="resource_link"):
    """A resource that the agent can read itself; `size` is in bytes."""

    name: str
    uri: str
    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    mime_type: Lenient[str | None] = None
    size: Lenient[Int64 | None] = None
    annotations: Lenient[Annotations | None] = None


class TextResourceContents(Wire):
    """A resource whose content is text."""

    uri: str
    text: str
    mime_type: Lenient[str | None] = None


class BlobResourceContents(Wire):
    """A resource whose content is bytes; `blob` is base64."""

    uri: str
    blob: str
    mime_type: Lenient[str | None] = None


EmbeddedResourceResource: TypeAlias = ByShape[TextResourceContents | BlobResourceContents]


class EmbeddedResource(Wire, tag_field="type", tag="resource"):
    """A resource with its content in the message."""

    resource: EmbeddedResourceResource
    annotations: Lenient[Annotations | None] = None


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
)
