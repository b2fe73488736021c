"""Images that are sent with a prompt, read when the user attaches them."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from accord.types.content import ContentBlock, ImageContent, ResourceLink
from accord_terminal.toolkit.session_setup import (
    EXTENSIONS,
    HEAD_BYTES,
    MAX_IMAGE_BYTES,
    image_type,
)

MAX_ATTACHED = 10  # images of one prompt
MAX_PASTED = 4096  # characters of a text that can be paths
_ABSOLUTE = re.compile(r"/|~/|file://|[A-Za-z]:[\\/]|\\\\")


class Attachment(Struct, frozen=True):
    """An image; `path` is None if it came from the clipboard."""

    data: bytes
    mime_type: str
    path: Path | None = None

    @property
    def name(self) -> str:
        """What the user knows it by."""
        extension = EXTENSIONS.get(self.mime_type, "")
        return self.path.name if self.path is not None else f"clipboard.{extension}"


def attached(data: bytes, path: Path | None = None) -> Attachment:
    """Return an image to send; raise `ValueError`, which says why it cannot be sent."""
    mime_type = image_type(data[:HEAD_BYTES])
    if mime_type is None:
        raise ValueError("It is not a PNG, JPEG, GIF, WebP or BMP image")
    if len(data) > MAX_IMAGE_BYTES:
        raise ValueError(f"The image is larger than {MAX_IMAGE_BYTES // 1024 // 1024} MB")
    return Attachment(data, mime_type, path)


def dropped_images(text: str) -> list[Attachment]:
    """Return the images whose paths were pasted, as terminals do with dropped files.

    Empty if the text is anything else. Raises `ValueError` for an image that cannot be sent.
    This reads files: call it in a thread.
    """
    for paths in _candidates(text):
        if paths and all(_is_image(path) for path in paths):
            return [attached(_read(path), path.absolute()) for path in paths[:MAX_ATTACHED]]
    return []


def readable(paths: Iterable[str]) -> Iterator[Attachment]:
    """Yield the images that can still be read."""
    for path in paths:
        try:
            yield attached(_read(Path(path)), Path(path))
        except (OSError, ValueError):
            continue


def image_content(
    images: Sequence[Attachment], *, takes_images: bool
) -> tuple[list[ContentBlock], list[str]]:
    """Return the images as content, and what the user must know of those that are not sent so."""
    if takes_images:
        uris = [None if one.path is None else one.path.as_uri() for one in images]
        pairs = zip(images, uris, strict=True)
        return [ImageContent(one.data, one.mime_type, uri) for one, uri in pairs], []
    contents: list[ContentBlock] = []
    remarks: list[str] = []
    for one in images:
        if one.path is None:
            remarks.append("The agent takes no images: the one of the clipboard was not sent")
            continue
        remarks.append(f"The agent takes no images: {one.name} was sent as a link")
        link = ResourceLink(
            one.path.as_uri(), one.name, mime_type=one.mime_type, size=len(one.data)
        )
        contents.append(link)
    return contents, remarks


def _candidates(text: str) -> Iterator[list[Path]]:
    """Yield the paths that a text can mean: one, or several in quotes, escaped or as URIs."""
    text = text.strip()
    if not text or len(text) > MAX_PASTED:
        return
    yield list(_paths([text]))
    yield list(_paths(text.splitlines()))
    try:
        words = shlex.split(text, posix=sys.platform != "win32")
    except ValueError:  # a quote without its end
        return
    yield list(_paths(words))


def _paths(words: Sequence[str]) -> Iterator[Path]:
    """Yield the words as paths; nothing if one is not an absolute path."""
    words = [word.strip().strip("\"'") for word in words if word.strip()]
    if not all(_ABSOLUTE.match(word) for word in words):
        return
    for word in words:
        if not word.startswith("file://"):
            yield Path(word).expanduser()
            continue
        try:
            parts = urlsplit(word)
        except ValueError:
            continue
        if parts.hostname in (None, "localhost"):
            path = unquote(parts.path)
            yield Path(path.removeprefix("/") if re.match(r"/[A-Za-z]:", path) else path)


def _is_image(path: Path) -> bool:
    try:
        if not path.is_file():  # a named pipe would wait for its other end
            return False
        with path.open("rb") as file:
            return image_type(file.read(HEAD_BYTES)) is not None
    except (OSError, ValueError):
        return False


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_IMAGE_BYTES + 1)
