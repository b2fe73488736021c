"""The model in version 1: how it is written, and how it is read."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from accord import v1
from accord.types.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Other,
    ResourceLink,
    TextContent,
    content_error,
)
from accord.types.notes import annotations_from_wire, annotations_to_wire
from accord.types.tool_calls import Diff, TerminalView, ToolCallLocation, ToolContent
from accord.wire.codec import convert, to_builtins

__all__ = (
    "content_from_wire",
    "content_to_wire",
    "location_to_wire",
    "tool_content_from_wire",
    "tool_content_to_wire",
)


def content_to_wire(content: ContentBlock) -> v1.ContentBlock:
    """Return content as v1 writes it."""
    match content:
        case TextContent():
            return v1.TextContent(text=str(content), **annotations_to_wire(v1, content))
        case str():
            return v1.TextContent(text=str.__str__(content))  # of a class of its own, perhaps
        case ImageContent(data, mime_type, uri):
            return v1.ImageContent(
                data=_encoded(data),
                mime_type=mime_type,
                uri=uri,
                **annotations_to_wire(v1, content),
            )
        case AudioContent(data, mime_type):
            return v1.AudioContent(
                data=_encoded(data), mime_type=mime_type, **annotations_to_wire(v1, content)
            )
        case ResourceLink(uri, name, title, description, mime_type, size):
            return v1.ResourceLink(
                uri=uri,
                name=name,
                title=title,
                description=description,
                mime_type=mime_type,
                size=size,
                **annotations_to_wire(v1, content),
            )
        case EmbeddedResource(uri, str() as text, mime_type, content_meta=meta):
            inner = v1.TextResourceContents(uri=uri, text=text, mime_type=mime_type, meta=meta)
            return v1.EmbeddedResource(resource=inner, **annotations_to_wire(v1, content))
        case EmbeddedResource(uri, bytes() as data, mime_type, content_meta=meta):
            blob = v1.BlobResourceContents(
                uri=uri, blob=_encoded(data), mime_type=mime_type, meta=meta
            )
            return v1.EmbeddedResource(resource=blob, **annotations_to_wire(v1, content))
        case Other(raw):
            return convert(raw, v1.ContentBlock)  # type: ignore[arg-type]  # a union is a type here
        case _:
            raise content_error("content", content)


def content_from_wire(block: v1.ContentBlock) -> ContentBlock:
    """Return a content block of v1 as content; broken base64 is kept as it came."""
    match block:
        case v1.TextContent(text=text):
            notes = annotations_from_wire(block)
            return TextContent(text, **notes) if notes else text
        case v1.ImageContent(data=data, mime_type=mime_type, uri=uri):
            if (decoded := _decoded(data)) is None:
                return Other(to_builtins(block))
            return ImageContent(decoded, mime_type, uri, **annotations_from_wire(block))
        case v1.AudioContent(data=data, mime_type=mime_type):
            if (decoded := _decoded(data)) is None:
                return Other(to_builtins(block))
            return AudioContent(decoded, mime_type, **annotations_from_wire(block))
        case v1.ResourceLink():
            return ResourceLink(
                block.uri,
                block.name,
                block.title,
                block.description,
                block.mime_type,
                block.size,
                **annotations_from_wire(block),
            )
        case v1.EmbeddedResource(resource=v1.TextResourceContents() as inner):
            notes = annotations_from_wire(block)
            return EmbeddedResource(
                inner.uri, inner.text, inner.mime_type, content_meta=inner.meta, **notes
            )
        case v1.EmbeddedResource(resource=v1.BlobResourceContents() as inner):
            if (decoded := _decoded(inner.blob)) is None:
                return Other(to_builtins(block))
            notes = annotations_from_wire(block)
            return EmbeddedResource(
                inner.uri, decoded, inner.mime_type, content_meta=inner.meta, **notes
            )
        case _:
            return Other(to_builtins(block))


def tool_content_to_wire(content: ToolContent) -> v1.ToolCallContent:
    """Return what a tool call shows as v1 writes it."""
    match content:
        case Diff(path, old, new, _):
            return v1.Diff(path=path, old_text=old, new_text=new or "")
        case TerminalView(terminal_id):
            return v1.Terminal(terminal_id=terminal_id)
        case _:
            return v1.Content(content=content_to_wire(content))


def tool_content_from_wire(content: v1.ToolCallContent) -> ToolContent:
    """Return what a v1 tool call shows."""
    match content:
        case v1.Diff(path=path, old_text=old, new_text=new):
            return Diff(path, old, new)
        case v1.Terminal(terminal_id=terminal_id):
            return TerminalView(terminal_id)
        case v1.Content(content=block):
            return content_from_wire(block)
        case _:
            return Other(to_builtins(content))


def location_to_wire(locations: Iterable[ToolCallLocation]) -> list[v1.ToolCallLocation]:
    """Return the places of a tool call as v1 writes them."""
    return [v1.ToolCallLocation(path=place.path, line=place.line) for place in locations]


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return None
