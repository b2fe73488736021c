"""Content blocks of prompts, messages and tool results (v2)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from accord.v2.ids import Base64, MediaType, Uri
from accord.wire.base import ByShape, Lenient, LenientList, Open, OpenEnum, UInt64, Wire

__all__ = (
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "ContentBlock",
    "EmbeddedResource",
    "EmbeddedResourceResource",
    "Icon",
    "IconTheme",
    "ImageContent",
    "ResourceLink",
    "Role",
    "TextContent",
    "TextResourceContents",
)

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
