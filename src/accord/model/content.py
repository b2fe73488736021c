"""Content: text, images, sounds, links and resources, whatever version carries them."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from accord.model.checked import Checked, need_each, wrong

__all__ = (
    "Audio",
    "Content",
    "Image",
    "Link",
    "Other",
    "Resource",
    "need_content",
    "need_contents",
    "not_content",
    "text_of",
)


class Image(Checked, frozen=True, tag="image"):
    """An image; `data` are its bytes."""

    data: bytes
    mime_type: str
    uri: str | None = None


class Audio(Checked, frozen=True, tag="audio"):
    """A sound; `data` are its bytes."""

    data: bytes
    mime_type: str


class Link(Checked, frozen=True, tag="link"):
    """A resource that the other side can read by itself; `size` in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


class Resource(Checked, frozen=True, tag="resource"):
    """A resource with its content: text, or bytes."""

    uri: str
    content: str | bytes
    mime_type: str | None = None


class Other(Struct, frozen=True, tag="other"):
    """Content of a type that nobody here knows, kept as it came."""

    raw: Any


# Plain text is a str, read as Markdown.
Content: TypeAlias = str | Image | Audio | Link | Resource | Other

_KINDS = (str, Image, Audio, Link, Resource, Other)


def need_content(where: str, content: object) -> None:
    """Raise `TypeError` for what is no content; `where` is the call and the argument."""
    if not isinstance(content, _KINDS):
        raise not_content(where, content)


def not_content(where: str, content: object) -> TypeError:
    """Return the error for what is no content."""
    return wrong(where, content, *_KINDS)


def need_contents(where: str, contents: object, *more: type) -> None:
    """Raise `TypeError` for what is no sequence of content, nor of these types."""
    need_each(where, contents, *_KINDS, *more)


def text_of(contents: list[Content] | tuple[Content, ...]) -> str:
    """Return the text of some content; links and resources stand in it as Markdown links."""
    parts: list[str] = []
    for content in contents:
        match content:
            case str():
                parts.append(content)
            case Link(uri=uri, name=name):
                parts.append(f"[{name}]({uri})")
            case Resource(uri=uri, content=str() as text):
                parts.append(f"[{uri}]({uri})\n\n{text}")
            case _:
                pass
    return "\n".join(parts)
