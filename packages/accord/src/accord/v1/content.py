"""Content blocks of prompts, messages and tool results (v1)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from accord.wire.base import ByShape, Int64, Lenient, LenientList, Wire

__all__ = (
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "ContentBlock",
    "EmbeddedResource",
    "EmbeddedResourceResource",
    "ImageContent",
    "ResourceLink",
    "Role",
    "TextContent",
    "TextResourceContents",
)

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
