"""Attaches files to a prompt: embedded if the agent supports that, else as links."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from accord.types.content import ContentBlock, EmbeddedResource, ImageContent, ResourceLink
from accord_terminal.toolkit.image_types import HEAD_BYTES, MAX_IMAGE_BYTES, image_type

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent


MAX_FILE_BYTES = 256 * 1024  # larger files are linked; images may be larger


def attached_content(agent: ConnectedAgent, files: Iterable[Path]) -> Iterator[ContentBlock]:
    """Yield the content blocks for these files."""
    for file in files:
        yield _content(agent, file.absolute())


def _content(agent: ConnectedAgent, path: Path) -> ContentBlock:
    size = path.stat().st_size
    with path.open("rb") as file:
        image = image_type(file.read(HEAD_BYTES))
    mime_type = image or mimetypes.guess_type(path.name)[0]
    link = ResourceLink(path.as_uri(), path.name, mime_type=mime_type, size=size)
    if image is not None:
        if size > MAX_IMAGE_BYTES or not agent.supports_content("image"):
            return link
        return ImageContent(path.read_bytes(), image, path.as_uri())
    if size > MAX_FILE_BYTES or not agent.supports_content("resource"):
        return link
    try:
        return EmbeddedResource(path.as_uri(), path.read_text("utf-8"), mime_type)
    except UnicodeDecodeError:
        return link
