"""A conversation as Markdown, as a page, or as JSON."""

from __future__ import annotations

import base64
import html
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from accord.client.events import ToolCall
from accord.client.message import Message
from accord.client.transcript import Transcript
from accord.text.markdown_html import page_of
from accord_chat.model.pictures import Picture, pictures_of, size_text
from accord_chat.model.timeline import Entry, Remark
from accord_terminal.ask.views import event_line
from accord_terminal.toolkit.session_setup import EXTENSIONS
from accord_terminal.toolkit.text import one_line, printable
from accord_terminal.toolkit.tool_rows import agent_text, plain, quoted, tool_call_parts

Format: TypeAlias = Literal["md", "html", "json"]
FORMATS: dict[Format, str] = {"md": "Markdown", "html": "A web page", "json": "JSON, the events"}
MAX_PICTURE_BYTES = 100 * 1024 * 1024  # of all images together


class Export(Struct, frozen=True):
    """The text of the file, and the images that Markdown links to."""

    text: str
    pictures: tuple[Picture, ...] = ()
    token: str = ""  # in the text, where the name of their folder belongs


def exported(
    kind: Format, title: str, cwd: str, entries: Iterable[Entry], transcript: Transcript
) -> Export:
    """Return the conversation as the content of a file."""
    if kind == "json":
        events = [event_line(event) for event in transcript.events()]
        document = {"title": title, "cwd": cwd, "events": events}
        return Export(msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n")
    pictures = _Pictures()
    parts = [f"# {plain(title)}", *_parts(entries, cwd, pictures)]
    if kind == "md":
        text = pictures.linked("\n\n".join(parts) + "\n")
        return Export(text, tuple(pictures.kept), pictures.token)
    return Export(pictures.embedded(page_of(one_line(title), parts)))


def write_export(folder: Path, kind: Format, export: Export, now: datetime) -> Path:
    """Write a new file for this user only, and a folder with its images; return its path."""
    stem = f"chat-{now:%Y%m%d-%H%M%S}"
    path, images = folder / f"{stem}.{kind}", f"{stem}.images"
    text = export.text.replace(export.token, images) if export.token else export.text
    _write(path, text.encode("utf-8"))
    if export.pictures:
        (folder / images).mkdir(mode=0o700)
    for number, picture in enumerate(export.pictures):
        _write(folder / images / _file_name(number, picture), picture.data)
    return path


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


class _Pictures:
    """The images of an export; the text has a mark for each, which no agent can know."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        self.kept: list[Picture] = []
        self._bytes = 0

    def part(self, picture: Picture) -> str:
        """Return the mark of an image, or a line about one that is not kept."""
        size = len(picture.data)
        if picture.mime_type is None or self._bytes + size > MAX_PICTURE_BYTES:
            kind = plain(picture.mime_type or picture.declared_type)
            return f"*[{kind}, {size_text(size)}, not kept here]*"
        self._bytes += size
        self.kept.append(picture)
        return f"{self.token}-{len(self.kept) - 1}-"

    def linked(self, text: str) -> str:
        """Return Markdown with links to files."""
        for number, picture in enumerate(self.kept):
            link = f"![{_alternative(picture)}]({self.token}/{_file_name(number, picture)})"
            text = text.replace(f"{self.token}-{number}-", link)
        return text

    def embedded(self, page: str) -> str:
        """Return HTML with the images in it; their types are checked by the content."""
        for number, picture in enumerate(self.kept):
            data = base64.b64encode(picture.data).decode("ascii")
            source = f"data:{picture.mime_type};base64,{data}"
            image = f'<img alt="{html.escape(_alternative(picture))}" src="{source}">'
            page = page.replace(f"{self.token}-{number}-", image, 1)
        return page


def _file_name(number: int, picture: Picture) -> str:
    return f"{number + 1}.{EXTENSIONS[picture.mime_type or '']}"


def _alternative(picture: Picture) -> str:
    """Return the text of an image: its name, in letters that mean nothing to Markdown."""
    return re.sub(r"[^\w. -]", "", one_line(picture.name, 80)) or "image"


def _parts(entries: Iterable[Entry], cwd: str, pictures: _Pictures) -> Iterator[str]:
    for entry in entries:
        marks = [pictures.part(picture) for picture in pictures_of(entry)]
        match entry.content:
            case Message(role="user") as message:
                text = f"**You:** {printable(message.text)}".rstrip()
                yield quoted("\n\n".join([text, *marks]))
            case Message(role="agent") as message:
                yield from filter(None, [agent_text(message.text), *marks])
            case Message() as message:
                text = f"*Thought:* {printable(message.text).strip()}"
                yield quoted("\n\n".join([text, *marks]))
            case ToolCall() as call:
                yield from tool_call_parts(call, cwd, entry.terminals)
                yield from marks
            case Remark(text=text, severity="error" | "warning" | "info"):
                yield f"*{plain(text)}*"
            case _:
                pass
