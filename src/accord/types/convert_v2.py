"""The model in version 2: how it is written, and how it is read."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

from accord import v2
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
from accord.types.git_patch import git_patch
from accord.types.notes import annotations_from_wire, annotations_to_wire
from accord.types.tool_calls import Diff, TerminalView, ToolCallLocation, ToolContent
from accord.wire.base import Unknown
from accord.wire.codec import convert, to_builtins

__all__ = (
    "content_from_wire",
    "content_to_wire",
    "location_to_wire",
    "tool_content_from_wire",
    "tool_content_to_wire",
)


def content_to_wire(content: ContentBlock) -> v2.ContentBlock:
    """Return content as v2 writes it."""
    match content:
        case TextContent():
            return v2.TextContent(text=str(content), **annotations_to_wire(v2, content))
        case str():
            return v2.TextContent(text=str.__str__(content))  # of a class of its own, perhaps
        case ImageContent(data, mime_type, uri):
            return v2.ImageContent(
                data=_encoded(data),
                mime_type=mime_type,
                uri=uri,
                **annotations_to_wire(v2, content),
            )
        case AudioContent(data, mime_type):
            return v2.AudioContent(
                data=_encoded(data), mime_type=mime_type, **annotations_to_wire(v2, content)
            )
        case ResourceLink(uri, name, title, description, mime_type, size):
            return v2.ResourceLink(
                uri=uri,
                name=name,
                title=title,
                description=description,
                mime_type=mime_type,
                size=size,
                icons=convert(list(content.icons), list[v2.Icon]) or None,
                **annotations_to_wire(v2, content),
            )
        case EmbeddedResource(uri, str() as text, mime_type, content_meta=meta):
            inner = v2.TextResourceContents(uri=uri, text=text, mime_type=mime_type, meta=meta)
            return v2.EmbeddedResource(resource=inner, **annotations_to_wire(v2, content))
        case EmbeddedResource(uri, bytes() as data, mime_type, content_meta=meta):
            blob = v2.BlobResourceContents(
                uri=uri, blob=_encoded(data), mime_type=mime_type, meta=meta
            )
            return v2.EmbeddedResource(resource=blob, **annotations_to_wire(v2, content))
        case Other(raw):
            return convert(raw, v2.ContentBlock)
        case _:
            raise content_error("content", content)


def content_from_wire(block: v2.ContentBlock) -> ContentBlock:
    """Return a content block of v2 as content; broken base64 is kept as it came."""
    match block:
        case v2.TextContent(text=text):
            notes = annotations_from_wire(block)
            return TextContent(text, **notes) if notes else text
        case v2.ImageContent(data=data, mime_type=mime_type, uri=uri):
            if (decoded := _decoded(data)) is None:
                return Other(to_builtins(block))
            return ImageContent(decoded, mime_type, uri, **annotations_from_wire(block))
        case v2.AudioContent(data=data, mime_type=mime_type):
            if (decoded := _decoded(data)) is None:
                return Other(to_builtins(block))
            return AudioContent(decoded, mime_type, **annotations_from_wire(block))
        case v2.ResourceLink():
            return ResourceLink(
                block.uri,
                block.name,
                block.title,
                block.description,
                block.mime_type,
                block.size,
                icons=tuple(to_builtins(icon) for icon in block.icons or ()),
                **annotations_from_wire(block),
            )
        case v2.EmbeddedResource(resource=v2.TextResourceContents() as inner):
            notes = annotations_from_wire(block)
            return EmbeddedResource(
                inner.uri, inner.text, inner.mime_type, content_meta=inner.meta, **notes
            )
        case v2.EmbeddedResource(resource=v2.BlobResourceContents() as inner):
            if (decoded := _decoded(inner.blob)) is None:
                return Other(to_builtins(block))
            notes = annotations_from_wire(block)
            return EmbeddedResource(
                inner.uri, decoded, inner.mime_type, content_meta=inner.meta, **notes
            )
        case _:
            return Other(to_builtins(block))


def tool_content_to_wire(content: ToolContent) -> v2.ToolCallContent:
    """Return what a tool call shows as v2 writes it."""
    match content:
        case Diff():
            return _diff_to_wire(content)
        case TerminalView(terminal_id):
            return v2.Terminal(terminal_id=terminal_id)
        case _:
            return v2.Content(content=content_to_wire(content))


def tool_content_from_wire(content: v2.ToolCallContent) -> ToolContent:
    """Return what a v2 tool call shows; of changes of several files the first and the patch."""
    match content:
        case v2.Diff(changes=[first, *_]) if not isinstance(first, Unknown):
            paths = dict.fromkeys(path for change in content.changes for path in _paths(change))
            del paths[first.path]
            patch = content.patch.text if content.patch else None
            return Diff(first.path, patch=patch, others=tuple(paths))
        case v2.Terminal(terminal_id=terminal_id):
            return TerminalView(terminal_id)
        case v2.Content(content=block):
            return content_from_wire(block)
        case _:
            return Other(to_builtins(content))


def _paths(change: v2.DiffChange) -> Iterator[str]:
    """Yield the paths that a change of a file is about, also one of an unknown kind."""
    match change:
        case Unknown(raw=raw):
            found = (raw.get("path"), raw.get("oldPath"))
            yield from (path for path in found if isinstance(path, str))
        case v2.DiffMove() | v2.DiffCopy():
            yield from (change.path, change.old_path)
        case _:
            yield change.path


def location_to_wire(locations: Iterable[ToolCallLocation]) -> list[v2.ToolCallLocation]:
    """Return the places of a tool call as v2 writes them."""
    return [v2.ToolCallLocation(path=place.path, line=place.line) for place in locations]


def _diff_to_wire(diff: Diff) -> v2.Diff:
    patch = diff.patch
    change: v2.DiffChange = v2.DiffModify(path=diff.path)
    if patch is None:
        patch = git_patch(diff.path, diff.old, diff.new)
        if diff.old is None:
            change = v2.DiffAdd(path=diff.path)
        elif diff.new is None:
            change = v2.DiffDelete(path=diff.path)
    others = [v2.DiffModify(path=path) for path in diff.others]
    return v2.Diff(changes=[change, *others], patch=v2.DiffPatch(format="git_patch", text=patch))


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return None
