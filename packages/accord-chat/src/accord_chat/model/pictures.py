"""The images of a conversation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from accord.client.events import Compaction, SessionMessage, ToolCall
from accord.client.message import Message
from accord.types.content import EmbeddedResource, ImageContent
from accord_chat.model.timeline import Entry
from accord_terminal.toolkit.session_setup import EXTENSIONS, HEAD_BYTES, image_type


class Picture(Struct, frozen=True):
    """An image as it was received."""

    data: bytes
    declared_type: str
    name: str = ""

    @property
    def mime_type(self) -> str | None:
        """The type by the content; None if it cannot be shown."""
        return image_type(self.data[:HEAD_BYTES])


def picture_of(part: object) -> Picture | None:
    """Return the image that a part of a message or a tool call is, if it is one."""
    match part:
        case ImageContent(data=data, mime_type=mime_type, uri=uri):
            return Picture(data, mime_type, _name(uri))
        case EmbeddedResource(content=bytes() as data, mime_type=mime_type, uri=uri):
            declared = mime_type or ""
            if declared.startswith("image/") or image_type(data[:HEAD_BYTES]) is not None:
                return Picture(data, declared, _name(uri))
        case _:
            pass
    return None


def pictures_of(entry: Entry) -> list[Picture]:
    """Return all images of an entry, in order."""
    return list(_pictures(_parts(entry)))


def _parts(entry: Entry) -> Iterable[object]:
    match entry.content:
        case Message(content=content) | ToolCall(content=content) | SessionMessage(content=content):
            return content
        case Compaction(summary=summary):
            return summary
        case _:
            return ()


def _pictures(parts: Iterable[object]) -> Iterator[Picture]:
    for part in parts:
        picture = picture_of(part)
        if picture is not None:
            yield picture


def _name(uri: str | None) -> str:
    """Return the last part of a URI."""
    if uri is None or uri.startswith("data:"):
        return ""
    try:
        return unquote(urlsplit(uri).path).rstrip("/").rpartition("/")[2]
    except ValueError:  # no URI
        return ""


def size_text(count: int) -> str:
    """Return a number of bytes for people."""
    if count >= 1024 * 1024:
        return f"{count / 1024 / 1024:.1f} MB"
    return f"{count / 1024:.0f} KB" if count >= 1024 else f"{count} bytes"


def save_picture(folder: Path, picture: Picture, now: datetime) -> Path:
    """Write an image as it was received to a new file for this user only; return its path.

    Raises `OSError`.
    """
    extension = EXTENSIONS.get(picture.mime_type or "", "bin")
    for number in range(1, 100):
        more = f"-{number}" if number > 1 else ""
        path = folder / f"image-{now:%Y%m%d-%H%M%S}{more}.{extension}"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as file:
            file.write(picture.data)
        return path
    raise FileExistsError(17, "There are too many images of this second")
