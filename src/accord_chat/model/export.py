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
from markdown_it import MarkdownIt
from msgspec import Struct

from accord.cli.ask.image_types import EXTENSIONS
from accord.cli.ask.safe_text import (
    last_lines,
    one_line,
    output_lines,
    printable,
    relative_path,
)
from accord.cli.ask.views.json_lines import event_line
from accord.client.events import ToolCall
from accord.client.message import Message
from accord.client.transcript import Transcript
from accord.types.diff_lines import diff_lines
from accord.types.tool_calls import Diff
from accord_chat.model.pictures import Picture, pictures_of, size_text
from accord_chat.model.timeline import Entry, Remark

__all__ = ("FORMATS", "Export", "Format", "exported", "write_export")

Format: TypeAlias = Literal["md", "html", "json"]
FORMATS: dict[Format, str] = {"md": "Markdown", "html": "A web page", "json": "JSON, the events"}
MAX_OUTPUT_LINES = 200  # of a tool call
MAX_PICTURE_BYTES = 100 * 1024 * 1024  # of all images together
_MARKS = {"completed": "✓", "failed": "✗", "cancelled": "⊘"}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; }}
img {{ max-width: 100%; }}
pre {{ overflow-x: auto; padding: .7em; background: #8881; }}
blockquote {{ margin: 1.5em 0; padding-left: 1em; border-left: 4px solid #07f; }}
</style>
</head>
<body>
{body}</body>
</html>
"""


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
    parts = _parts(entries, cwd, pictures)
    text = "\n\n".join([f"# {one_line(title)}", *parts]) + "\n"
    if kind == "md":
        return Export(pictures.linked(text), tuple(pictures.kept), pictures.token)
    # No HTML of the agent, and no images of its Markdown: they would be loaded from other servers.
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    body = pictures.embedded(parser.render(text))
    return Export(_PAGE.format(title=html.escape(one_line(title)), body=body))


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
            kind = _plain(picture.mime_type or picture.declared_type)
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
                yield _quoted("\n\n".join([text, *marks]))
            case Message(role="agent") as message:
                yield from filter(None, [printable(message.text), *marks])
            case Message() as message:
                text = f"*Thought:* {printable(message.text).strip()}"
                yield _quoted("\n\n".join([text, *marks]))
            case ToolCall() as call:
                yield from _call(call, entry, cwd)
                yield from marks
            case Remark(text=text, severity="error" | "warning" | "info"):
                yield f"*{_plain(text)}*"
            case _:
                pass


def _call(call: ToolCall, entry: Entry, cwd: str) -> Iterator[str]:
    yield f"**{_MARKS.get(call.status, '…')} {_plain(call.title or str(call.kind))}**"
    for part in call.content:
        if isinstance(part, Diff):
            path = one_line(relative_path(part.path, cwd))
            signs = {"gap": "@@", "remark": "\\"}
            lines = (f"{signs.get(line.sign, line.sign)}{line.text}" for line in diff_lines(part))
            yield _fenced(f"{path}\n" + printable("\n".join(lines)), "diff")
    outputs = [terminal.output for terminal in entry.terminals]
    for output in outputs:
        yield _fenced("\n".join(last_lines(output, MAX_OUTPUT_LINES)[0]), "")
    text = "".join(part for part in call.content if isinstance(part, str))
    if text.strip():
        yield _fenced("\n".join(output_lines(text.strip("\n"))[:MAX_OUTPUT_LINES]), "")


def _fenced(text: str, language: str) -> str:
    """Return a block of code; its fence is longer than all in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _plain(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_[]<>#" else c for c in one_line(text))


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))
