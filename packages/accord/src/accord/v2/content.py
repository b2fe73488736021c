"""Values of version 2: ids, scalars, errors, and content blocks."""

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
    Open,
    OpenEnum,
    UInt16,
    UInt64,
    Wire,
)

__all__ = (
    "AbsolutePath",
    "Annotations",
    "AudioContent",
    "AuthMethodId",
    "Base64",
    "BlobResourceContents",
    "CompactionId",
    "ContentBlock",
    "DateTime",
    "ElicitationId",
    "EmbeddedResource",
    "EmbeddedResourceResource",
    "Error",
    "ErrorCode",
    "ErrorData",
    "Icon",
    "IconTheme",
    "ImageContent",
    "MediaType",
    "MessageId",
    "PermissionOptionId",
    "PlanId",
    "ProtocolVersion",
    "ProviderId",
    "Regex",
    "RequestId",
    "ResourceLink",
    "Role",
    "SessionConfigGroupId",
    "SessionConfigId",
    "SessionConfigValueId",
    "SessionId",
    "SessionListCursor",
    "SessionNotFoundErrorData",
    "TerminalId",
    "TextContent",
    "TextResourceContents",
    "ToolCallId",
    "UnsupportedProtocolVersionErrorData",
    "Uri",
)


# The scalars of v2: ids, paths, encoded text.

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


# Errors as they travel in answers and at the end of work.

# -32700 parse error, -32600 invalid request, -32601 method not found, -32602 invalid params,
# -32603 internal error, -32800 request cancelled, -32000 authentication required,
# -32002 resource not found, -32022 unsupported protocol version; any other may come.
ErrorCode: TypeAlias = Int32


class UnsupportedProtocolVersionErrorData(Wire):
    """The requested version, and those that the agent supports."""

    requested: ProtocolVersion
    supported: list[ProtocolVersion]


class SessionNotFoundErrorData(Wire):
    """The session that does not exist."""

    session_id: SessionId


ErrorData: TypeAlias = ByShape[UnsupportedProtocolVersionErrorData | SessionNotFoundErrorData | Any]


class Error(Bare):
    """An error; `message` is one short sentence, `data` any JSON."""

    code: ErrorCode
    message: str
    data: Lenient[ErrorData | None] = None


# Content blocks of prompts, messages and tool results.

Role: TypeAlias = OpenEnum[Literal["assistant", "user"]]
IconTheme: TypeAlias = OpenEnum[Literal["light", "dark"]]


class Annotations(Wire):
    """Hints for display: audience, last modification, priority (0 to 1)."""

    audience: Lenient[LenientList[Role] | None] = None
    last_modified: Lenient[str | None] = None
    priority: Lenient[Annotated[float, Meta(ge=0, le=1)] | None] = None


class TextContent(Wire, tag_field="type", tag="text"):
    """Text, read as Markdown."""

    text: str
    annotations: Lenient[Annotations | None] = None


class ImageContent(Wire, tag_field="type", tag="image"):
    """An image; `data` is base64."""

    data: Base64
    mime_type: MediaType
    uri: Lenient[Uri | None] = None
    annotations: Lenient[Annotations | None] = None


class AudioContent(Wire, tag_field="type", tag="audio"):
    """Audio; `data` is base64."""

    data: Base64
    mime_type: MediaType
    annotations: Lenient[Annotations | None] = None


class Icon(Wire):
    """An icon of a resource; `src` starts with https: or data:, a size reads like 48x48 or any."""

    src: Uri
    mime_type: Lenient[MediaType | None] = None
    sizes: Lenient[LenientList[str] | None] = None
    theme: Lenient[IconTheme | None] = None


class ResourceLink(Wire, tag_field="type", tag="resource_link"):
    """A resource that the agent can read itself; `size` is in bytes."""

    name: str
    uri: Uri
    title: Lenient[str | None] = None
    description: Lenient[str | None] = None
    icons: Lenient[LenientList[Icon] | None] = None
    mime_type: Lenient[MediaType | None] = None
    size: Lenient[UInt64 | None] = None
    annotations: Lenient[Annotations | None] = None


class TextResourceContents(Wire):
    """A resource whose content is text."""

    text: str
    uri: Uri
    mime_type: Lenient[MediaType | None] = None


class BlobResourceContents(Wire):
    """A resource whose content is bytes; `blob` is base64."""

    blob: Base64
    uri: Uri
    mime_type: Lenient[MediaType | None] = None


EmbeddedResourceResource: TypeAlias = ByShape[TextResourceContents | BlobResourceContents]


class EmbeddedResource(Wire, tag_field="type", tag="resource"):
    """A resource with its content in the message."""

    resource: EmbeddedResourceResource
    annotations: Lenient[Annotations | None] = None


ContentBlock: TypeAlias = Open[
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
]
