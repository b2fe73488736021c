"""Conversion of content to and from the wire, if both versions write it alike."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from accord.types.content import (
    Annotations,
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Other,
    ResourceLink,
    TextContent,
    content_error,
)
from accord.types.tool_calls import Diff, TerminalView, ToolCallLocation, ToolContent
from accord.wire.codec import convert, to_builtins

BlockT = TypeVar("BlockT")  # the content block of a version
ToolContentT = TypeVar("ToolContentT")  # its content of a tool call
LocationT = TypeVar("LocationT")  # its location of a tool call


class WireTypes(Protocol):
    """The types of content that `accord.v1` and `accord.v2` both have, under the same names."""

    @property
    def Annotations(self) -> type[Any]: ...  # noqa: N802  # a class
    @property
    def AudioContent(self) -> type[Any]: ...  # noqa: N802
    @property
    def BlobResourceContents(self) -> type[Any]: ...  # noqa: N802
    @property
    def Content(self) -> type[Any]: ...  # noqa: N802
    @property
    def ContentBlock(self) -> Any: ...  # noqa: N802  # a union
    @property
    def EmbeddedResource(self) -> type[Any]: ...  # noqa: N802
    @property
    def ImageContent(self) -> type[Any]: ...  # noqa: N802
    @property
    def ResourceLink(self) -> type[Any]: ...  # noqa: N802
    @property
    def Terminal(self) -> type[Any]: ...  # noqa: N802
    @property
    def TextContent(self) -> type[Any]: ...  # noqa: N802
    @property
    def TextResourceContents(self) -> type[Any]: ...  # noqa: N802
    @property
    def ToolCallLocation(self) -> type[Any]: ...  # noqa: N802


class ContentConverter(ABC, Generic[BlockT, ToolContentT, LocationT]):
    """Converts content between the version-neutral types and the types of one version."""

    def __init__(self, types: WireTypes) -> None:
        self.types = types

    def content_to_wire(self, content: ContentBlock) -> BlockT:
        """Return content as a content block of the version."""
        types: Any = self.types
        match content:
            case TextContent():
                return types.TextContent(text=str(content), **self._notes_to_wire(content))
            case str():
                return types.TextContent(text=str.__str__(content))  # may be a subclass of str
            case ImageContent(data, mime_type, uri):
                return types.ImageContent(
                    data=_encoded(data),
                    mime_type=mime_type,
                    uri=uri,
                    **self._notes_to_wire(content),
                )
            case AudioContent(data, mime_type):
                return types.AudioContent(
                    data=_encoded(data), mime_type=mime_type, **self._notes_to_wire(content)
                )
            case ResourceLink():
                return types.ResourceLink(
                    uri=content.uri,
                    name=content.name,
                    title=content.title,
                    description=content.description,
                    mime_type=content.mime_type,
                    size=content.size,
                    **self.link_to_wire(content),
                    **self._notes_to_wire(content),
                )
            case EmbeddedResource(uri, body, mime_type, content_meta=meta):
                fields: dict[str, Any] = {"uri": uri, "mime_type": mime_type, "meta": meta}
                inner = (
                    types.TextResourceContents(text=body, **fields)
                    if isinstance(body, str)
                    else types.BlobResourceContents(blob=_encoded(body), **fields)
                )
                return types.EmbeddedResource(resource=inner, **self._notes_to_wire(content))
            case Other(raw):
                return convert(raw, types.ContentBlock)
            case _:
                raise content_error("content", content)

    def content_from_wire(self, block: BlockT) -> ContentBlock:
        """Return a content block of the version as content; invalid base64 is kept as sent."""
        types: Any = self.types
        wire: Any = block
        match wire:
            case types.TextContent():
                notes = self._notes_from_wire(wire)
                return TextContent(wire.text, **notes) if notes else wire.text
            case types.ImageContent():
                if (data := _decoded(wire.data)) is not None:
                    notes = self._notes_from_wire(wire)
                    return ImageContent(data, wire.mime_type, wire.uri, **notes)
            case types.AudioContent():
                if (data := _decoded(wire.data)) is not None:
                    return AudioContent(data, wire.mime_type, **self._notes_from_wire(wire))
            case types.ResourceLink():
                return ResourceLink(
                    wire.uri,
                    wire.name,
                    wire.title,
                    wire.description,
                    wire.mime_type,
                    wire.size,
                    **self.link_from_wire(wire),
                    **self._notes_from_wire(wire),
                )
            case types.EmbeddedResource(resource=types.TextResourceContents() as inner):
                return self._resource(wire, inner, inner.text)
            case types.EmbeddedResource(resource=types.BlobResourceContents() as inner):
                if (data := _decoded(inner.blob)) is not None:
                    return self._resource(wire, inner, data)
            case _:
                pass
        return Other(to_builtins(wire))

    def _resource(self, block: Any, inner: Any, body: str | bytes) -> EmbeddedResource:
        notes = self._notes_from_wire(block)
        return EmbeddedResource(inner.uri, body, inner.mime_type, content_meta=inner.meta, **notes)

    def tool_content_to_wire(self, content: ToolContent) -> ToolContentT:
        """Return the content of a tool call as the version writes it."""
        types: Any = self.types
        match content:
            case Diff():
                return self.diff_to_wire(content)
            case TerminalView(terminal_id):
                return types.Terminal(terminal_id=terminal_id)
            case _:
                return types.Content(content=self.content_to_wire(content))

    def tool_content_from_wire(self, content: ToolContentT) -> ToolContent:
        """Return the content of a tool call of the version."""
        types: Any = self.types
        wire: Any = content
        match wire:
            case types.Content():
                return self.content_from_wire(wire.content)
            case types.Terminal():
                return TerminalView(wire.terminal_id)
            case _:
                diff = self.diff_from_wire(content)
                return Other(to_builtins(wire)) if diff is None else diff

    def locations_to_wire(self, locations: Iterable[ToolCallLocation]) -> list[LocationT]:
        """Return the locations of a tool call as the version writes them."""
        location: Any = self.types.ToolCallLocation
        return [location(path=place.path, line=place.line) for place in locations]

    # What the versions write differently.

    @abstractmethod
    def diff_to_wire(self, diff: Diff) -> ToolContentT:
        """Return a diff as the version writes it."""

    @abstractmethod
    def diff_from_wire(self, content: ToolContentT) -> Diff | None:
        """Return a diff of the version, None for other content."""

    def link_to_wire(self, link: ResourceLink) -> dict[str, Any]:
        """Return the fields of a resource link that only this version has."""
        return {}

    def link_from_wire(self, block: Any) -> dict[str, Any]:
        """Return the fields of a resource link that only this version has."""
        return {}

    # Annotations and `_meta`.

    def _notes_to_wire(self, content: Any) -> dict[str, Any]:
        notes: dict[str, Any] = {}
        if (annotations := content.annotations) is not None:
            audience = annotations.audience
            notes["annotations"] = self.types.Annotations(
                audience=None if audience is None else list(audience),
                last_modified=annotations.last_modified,
                priority=annotations.priority,
                meta=annotations.meta,
            )
        if content.meta is not None:
            notes["meta"] = content.meta
        return notes

    def _notes_from_wire(self, block: Any) -> dict[str, Any]:
        notes: dict[str, Any] = {}
        if (annotations := block.annotations) is not None:
            audience = annotations.audience
            notes["annotations"] = Annotations(
                audience=None if audience is None else tuple(map(str, audience)),
                priority=annotations.priority,
                last_modified=annotations.last_modified,
                meta=annotations.meta,
            )
        if block.meta is not None:
            notes["meta"] = block.meta
        return notes


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        return None
