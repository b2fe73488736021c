"""Content: text, images, audio, links and resources."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from accord.types.validation import ValidatedStruct, require_type, require_types, type_error


class Annotations(ValidatedStruct, frozen=True):
    """Hints for display (`v1.Annotations`, `v2.Annotations`).

    The audience, the priority from 0 to 1, and the last modification as RFC 3339.
    """

    audience: tuple[str, ...] | None = None  # `user`, `assistant`
    priority: float | None = None
    last_modified: str | None = None
    meta: dict[str, Any] | None = None


class TextContent(str):
    """Text with annotations or `_meta` (`v1.TextContent`, `v2.TextContent`).

    It is a `str`; the results of its methods are plain strings.
    """

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


# `annotations` and `meta` (`_meta`) below are those of the content block.


class ImageContent(ValidatedStruct, frozen=True, tag="image"):
    """An image; `data` is its bytes (`v1.ImageContent`, `v2.ImageContent`)."""

    data: bytes
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None


class AudioContent(ValidatedStruct, frozen=True, tag="audio"):
    """Audio; `data` is its bytes (`v1.AudioContent`, `v2.AudioContent`)."""

    data: bytes
    mime_type: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None


class ResourceLink(ValidatedStruct, frozen=True, tag="link"):
    """A resource that the receiver can read itself (`v1.ResourceLink`, `v2.ResourceLink`).

    `size` is in bytes.
    """

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    icons: tuple[dict[str, Any], ...] = ()  # only in version 2, in its format


class EmbeddedResource(ValidatedStruct, frozen=True, tag="resource"):
    """A resource with its text or bytes (`v1.EmbeddedResource`, `v2.EmbeddedResource`).

    `content_meta` is the `_meta` of the inner content.
    """

    uri: str
    content: str | bytes
    mime_type: str | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = None
    content_meta: dict[str, Any] | None = None


class Other(Struct, frozen=True, tag="other"):
    """Content of an unknown type, as received."""

    raw: Any


# Plain text is a str and is displayed as Markdown; `TextContent` is a str.
ContentBlock: TypeAlias = (
    str | ImageContent | AudioContent | ResourceLink | EmbeddedResource | Other
)

_KINDS = (str, ImageContent, AudioContent, ResourceLink, EmbeddedResource, Other)


def require_content(where: str, content: object) -> None:
    """Raise `TypeError` unless this is content; `where` names the call and the argument."""
    if not isinstance(content, _KINDS):
        raise content_error(where, content)


def content_error(where: str, content: object) -> TypeError:
    """Return the error for a value that is not content."""
    return type_error(where, content, *_KINDS)


def require_contents(where: str, contents: object, *more: type) -> None:
    """Raise `TypeError` unless this is a sequence of content or of the types in `more`."""
    require_types(where, contents, *_KINDS, *more)


def text_of(contents: list[ContentBlock] | tuple[ContentBlock, ...]) -> str:
    """Return the text of content; links and resources become Markdown links."""
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
