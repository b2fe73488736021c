"""Files that go with a prompt: inside of it where the agent takes them, else as links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.types.content import Content

__all__ = ("MOST_FILE_BYTES", "attached")

MOST_FILE_BYTES = 256 * 1024  # of a file that goes into the prompt; larger ones are linked


def attached(agent: ConnectedAgent, files: Iterable[Path]) -> Iterator[Content]:
    """Yield what stands for these files in a prompt."""
    for file in files:
        yield _content(agent, file.absolute())


def _content(agent: ConnectedAgent, path: Path) -> Content:
    import mimetypes

    from accord.types.content import Image, Link, Resource

    mime_type = mimetypes.guess_type(path.name)[0]
    size = path.stat().st_size
    link = Link(path.as_uri(), path.name, mime_type=mime_type, size=size)
    if size > MOST_FILE_BYTES:
        return link
    if mime_type is not None and mime_type.startswith("image/"):
        if not agent.takes("image"):
            return link
        return Image(path.read_bytes(), mime_type, path.as_uri())
    if not agent.takes("resource"):
        return link
    try:
        return Resource(path.as_uri(), path.read_text("utf-8"), mime_type)
    except UnicodeDecodeError:
        return link
