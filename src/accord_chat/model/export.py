"""A conversation as Markdown, as a page, or as JSON."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from markdown_it import MarkdownIt

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
from accord_chat.model.timeline import Entry, Remark

__all__ = ("FORMATS", "Format", "exported", "write_export")

Format: TypeAlias = Literal["md", "html", "json"]
FORMATS: dict[Format, str] = {"md": "Markdown", "html": "A web page", "json": "JSON, the events"}
MAX_OUTPUT_LINES = 200  # of a tool call
_MARKS = {"completed": "✓", "failed": "✗", "cancelled": "⊘"}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; }}
pre {{ overflow-x: auto; padding: .7em; background: #8881; }}
blockquote {{ margin: 1.5em 0; padding-left: 1em; border-left: 4px solid #07f; }}
</style>
</head>
<body>
{body}</body>
</html>
"""


def exported(
    kind: Format, title: str, cwd: str, entries: Iterable[Entry], transcript: Transcript
) -> str:
    """Return the text of the file."""
    if kind == "json":
        events = [event_line(event) for event in transcript.events()]
        document = {"title": title, "cwd": cwd, "events": events}
        return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"
    text = "\n\n".join([f"# {one_line(title)}", *_parts(entries, cwd)]) + "\n"
    if kind == "md":
        return text
    # No HTML of the agent, and no images: they would be loaded from other servers.
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    return _PAGE.format(title=html.escape(one_line(title)), body=parser.render(text))


def write_export(folder: Path, kind: Format, text: str, now: datetime) -> Path:
    """Write a new file for this user only; return its path."""
    path = folder / f"chat-{now:%Y%m%d-%H%M%S}.{kind}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _parts(entries: Iterable[Entry], cwd: str) -> Iterator[str]:
    for entry in entries:
        match entry.content:
            case Message(role="user") as message:
                yield _quoted(f"**You:** {printable(message.text)}")
            case Message(role="agent") as message:
                yield printable(message.text)
            case Message() as message:
                yield _quoted(f"*Thought:* {printable(message.text).strip()}")
            case ToolCall() as call:
                yield from _call(call, entry, cwd)
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
