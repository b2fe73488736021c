"""Content: text, images, sounds, links and resources, whatever version carries them."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from accord.types.validation import ValidatedStruct, require_type, require_types, type_error

__all__ = (
    "Annotations",
    "AudioContent",
    "ContentBlock",
    "EmbeddedResource",
    "ImageContent",
    "Other",
    "ResourceLink",
    "TextContent",
    "content_error",
    "require_content",
    "require_contents",
    "text_of",
)


class Annotations(ValidatedStruct, frozen=True):
    """Hints for display: for whom content is, how important (0 to 1), how fresh (RFC 3339)."""

    audience: tuple[str, ...] | None = None  # `user`, `assistant`
    priority: float | None = None
    last_modified: str | None = None
    meta: dict[str, Any] | None = None


class TextContent(str):
    """Text with annotations or `_meta`; it is a `str`, and what is made of it is plain text."""

    __slots__ = ("annotations", "meta")

    annotations: Annotations | None
    meta: dict[str, Any] | None

    def __new__(
        cls,
        text: str,
        *,
        annotations: Annotations | None = None,
        meta: dict[str, Any] | None = None,
    ) -> TextContent:
        require_type("TextContent(text=…)", text, str)
        require_type("TextContent(annotations=…)", annotations, Annotations, type(None))
        require_type("TextContent(meta=…)", meta, dict, type(None))
        made = super().__new__(cls, text)
        made.annotations, made.meta = annotations, meta
        return made

    def __repr__(self) -> str:
        return f"TextContent({str(self)!r}, annotations={self.annotations!r}, meta={self.meta!r})"


# `annotations` and `meta` of all content below are what came with it, or go with it (`_meta`).


class ImageContent(ValidatedStruct, frozen=True, tag="image"):
    """An image; `data` are its bytes."""

    data: bytes
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None


class AudioContent(ValidatedStruct, frozen=True, tag="audio"):
    """A sound; `data` are its bytes."""

    data: bytes
    mime_type: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None


class ResourceLink(ValidatedStruct, frozen=True, tag="link"):
    """A resource that the other side can read by itself; `size` in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    icons: tuple[dict[str, Any], ...] = ()  # of version 2, as it has them


class EmbeddedResource(ValidatedStruct, frozen=True, tag="resource"):
    """A resource with its content: text, or bytes; `content_meta` is the `_meta` of that."""

    uri: str
    content: str | bytes
    mime_type: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    content_meta: dict[str, Any] | None = None


class Other(Struct, frozen=True, tag="other"):
    """Content of a type that nobody here knows, kept as it came."""

    raw: Any


# Plain text is a str, read as Markdown; `TextContent` is one.
ContentBlock: TypeAlias = (
    str | ImageContent | AudioContent | ResourceLink | EmbeddedResource | Other
)

_KINDS = (str, ImageContent, AudioContent, ResourceLink, EmbeddedResource, Other)


def require_content(where: str, content: object) -> None:
    """Raise `TypeError` for what is no content; `where` is the call and the argument."""
    if not isinstance(content, _KINDS):
        raise content_error(where, content)


def content_error(where: str, content: object) -> TypeError:
    """Return the error for what is no content."""
    return type_error(where, content, *_KINDS)


def require_contents(where: str, contents: object, *more: type) -> None:
    """Raise `TypeError` for what is no sequence of content, nor of these types."""
    require_types(where, contents, *_KINDS, *more)


def text_of(contents: list[ContentBlock] | tuple[ContentBlock, ...]) -> str:
    """Return the text of some content; links and resources stand in it as Markdown links."""
    parts: list[str] = []
    for content in contents:
        match content:
            case str():
                parts.append(content)
            case ResourceLink(uri=uri, name=name):
                parts.append(f"[{name}]({uri})")
            case EmbeddedResource(uri=uri, content=str() as text):
                parts.append(f"[{uri}]({uri})\n\n{text}")
            case _:
                pass
    return "\n".join(parts)
