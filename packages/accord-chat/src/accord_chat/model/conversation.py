"""A conversation as the chat shows it: its entries in order, their images, and its export.

An entry refers to an item of the transcript, or is a remark of this program. Events only mark what
has changed; `Timeline.sync` then looks at the transcript, once for all events since the last frame.
`exported` writes a conversation as Markdown, as a page, or as JSON.
"""

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
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from accord.client.events import (
    AgentTerminal,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    Notice,
    PermissionDecided,
    SessionMessage,
    StateChanged,
    Subagent,
    TerminalOutputChunk,
    Text,
    Thought,
    ToolCall,
    UserText,
)
from accord.client.transcript import Item, Message, TerminalTranscript, Transcript
from accord.text.markdown_html import page_of
from accord.types.content import EmbeddedResource, ImageContent
from accord.types.tool_calls import Diff, TerminalView
from accord_terminal.ask.views import event_line
from accord_terminal.toolkit.session_setup import EXTENSIONS, HEAD_BYTES, image_type
from accord_terminal.toolkit.text import one_line, printable
from accord_terminal.toolkit.tool_rows import agent_text, plain, quoted, tool_call_parts

Severity: TypeAlias = Literal["info", "warning", "error", "quiet"]


class Remark(Struct, frozen=True):
    """A line of this program, or a notice of the agent."""

    text: str
    severity: Severity = "info"
    details: str = ""
    ends_turn: bool = False


class Entry(Struct, kw_only=True, eq=False):
    """One part of the conversation; `version` grows with each change."""

    content: Item | Remark
    version: int = 0
    replaced: int = 0  # how often the agent has replaced a message
    expanded: bool | None = None  # None: not chosen by the user
    terminals: tuple[TerminalTranscript, ...] = ()  # that a tool call shows
    is_open: bool = False  # a message that may still grow
    said: str = ""  # what the user has typed, of a message that was said while the agent worked
    note: str = ""  # its outcome
    places: dict[Diff, int] = {}  # lines of the file before the text
    without_place: dict[Diff, object] = {}  # and of which state of the file


class Timeline:
    """The entries of one session."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.entries: list[Entry] = []
        self.changed: set[int] = set()  # positions of entries, since the last `take_changed`
        self.side_changed = True  # something outside of the conversation: options, plans, usage
        self._entry_of: list[int] = []  # by item
        self._items: dict[tuple[str, str], int] = {}  # messages and calls by id
        self._touched: set[tuple[str, str]] = set()
        self._entries_of_terminal: dict[str, set[int]] = {}
        self._open: set[int] = set()
        self._notes: list[tuple[str, str, int]] = []  # of messages that have not come yet
        self.turn_start = 0  # the position of the first entry of the turn

    @property
    def prompts(self) -> list[str]:
        """What the user has said, the earliest first."""
        return [
            entry.said or entry.content.text
            for entry in self.entries
            if isinstance(entry.content, Message) and entry.content.role == "user"
        ]

    def note_said(self, text: str, note: str, since: int) -> None:
        """Note the outcome of a message of the user, which is at `since` or after it, or comes."""
        self._notes.append((text, note, since))
        self.sync()

    def waits_for(self, text: str) -> bool:
        """Return whether a message of the user with a note has not come yet."""
        return any(said == text for said, _, _ in self._notes)

    def drop_note(self, text: str) -> None:
        """Forget the note for a message that does not come."""
        self._notes = [one for one in self._notes if one[0] != text]

    def _write_notes(self) -> None:
        for noted in list(self._notes):
            text, note, since = noted
            for at in range(since, len(self.entries)):
                entry = self.entries[at]
                content = entry.content
                if (
                    isinstance(content, Message)
                    and content.role == "user"
                    and not entry.note
                    and text in content.text
                ):
                    entry.said, entry.note = text, note
                    self._notes.remove(noted)
                    self._change(at)
                    break

    def continue_with(self, transcript: Transcript) -> None:
        """Go on with another transcript below the existing entries."""
        self.sync()
        self.close_messages()
        self.transcript = transcript
        self._entry_of, self._items, self._touched = [], {}, set()
        self._entries_of_terminal = {}
        self.side_changed = True

    def apply(self, event: Event) -> None:
        """Note what an event changes; the transcript has already applied it."""
        match event:
            case Text(message_id=message_id):
                if message_id is not None:
                    self._touched.add(("agent", message_id))
            case Thought(message_id=message_id):
                if message_id is not None:
                    self._touched.add(("thought", message_id))
            case UserText(message_id=message_id):
                if message_id is not None:
                    self._touched.add(("user", message_id))
            case ContentChunk(role=role, message_id=message_id):
                if message_id is not None:
                    self._touched.add((role, message_id))
            case MessageReplaced(role=role, message_id=message_id):
                self._touched.add((role, message_id))
                number = self._items.get((role, message_id))
                if number is not None:
                    self.entries[self._entry_of[number]].replaced += 1
            case ToolCall(id=call_id):
                self._touched.add(("tool call", call_id))
            case Compaction(id=item_id):
                self._touched.add(("compaction", item_id))
            case SessionMessage(id=item_id):
                self._touched.add(("session message", item_id))
            case AgentTerminal(id=terminal) | TerminalOutputChunk(id=terminal):
                for at in self._entries_of_terminal.get(terminal, ()):
                    self._change(at)
            case Notice(severity=severity, title=title, description=description):
                known = severity if severity in ("info", "warning", "error") else "info"
                self.remark(title, known, description or "")
            case PermissionDecided(request=request, option=option):
                if option is None:
                    self.remark(f"Not answered here: {request.title}", "quiet")
                elif not option.allows:
                    self.remark(f"Rejected: {request.title}", "warning")
            case StateChanged() | Subagent():
                self.side_changed = True
            case _:
                self.side_changed = True

    def remark(self, text: str, severity: Severity = "info", details: str = "") -> None:
        """Add a remark below everything that has happened so far."""
        self.sync()
        self._add(Entry(content=Remark(text, severity, details)))

    def add_call(self, call: ToolCall) -> None:
        """Add a tool call that is not of the transcript, folded."""
        self.sync()
        self._add(Entry(content=call, expanded=False))

    def end_turn(self, text: str, severity: Severity) -> None:
        """Add the remark below a turn."""
        self.sync()
        notes, self._notes = self._notes, []
        for said, note, _ in notes:  # the agent has not shown them
            self._add(Entry(content=Remark(f"Said while the agent worked: {note}", details=said)))
        self._add(Entry(content=Remark(text, severity, ends_turn=True)))
        self.turn_start = len(self.entries)

    def close_messages(self) -> None:
        """Note that no message grows any more: the turn has ended."""
        self.sync()
        self._close_open()

    def sync(self) -> None:
        """Take over what has changed in the transcript."""
        items = self.transcript.items
        known = len(self._entry_of)
        if known and isinstance(items[known - 1], Message):
            self._change(self._entry_of[known - 1])  # text without an id continues the last item
        for number in range(known, len(items)):
            self._add_item(items[number], number)
        for key in self._touched:
            number = self._items.get(key)
            if number is not None and number < known:
                self._update(number)
        self._touched.clear()
        if self._notes:
            self._write_notes()

    def take_changed(self) -> set[int]:
        """Return the positions of the changed entries, and forget them."""
        changed, self.changed = self.changed, set()
        return changed

    def _add_item(self, item: Item, number: int) -> None:
        self._close_open()  # only the last message is expected to grow
        entry = Entry(content=item)
        at = self._add(entry)
        self._entry_of.append(at)
        match item:
            case Message(role=role, id=message_id):
                entry.is_open = True
                self._open.add(at)
                if message_id is not None:
                    self._items[role, message_id] = number
            case ToolCall(id=item_id):
                self._items["tool call", item_id] = number
                self._find_terminals(entry, at)
            case Compaction(id=item_id):
                self._items["compaction", item_id] = number
            case SessionMessage(id=item_id):
                self._items["session message", item_id] = number

    def _close_open(self) -> None:
        for at in self._open:
            self.entries[at].is_open = False
            self._change(at)
        self._open.clear()

    def _update(self, number: int) -> None:
        at = self._entry_of[number]
        entry = self.entries[at]
        entry.content = self.transcript.items[number]
        self._find_terminals(entry, at)
        self._change(at)

    def _find_terminals(self, entry: Entry, at: int) -> None:
        if not isinstance(entry.content, ToolCall):
            return
        shown: list[TerminalTranscript] = []
        for part in entry.content.content:
            if isinstance(part, TerminalView):
                self._entries_of_terminal.setdefault(part.terminal_id, set()).add(at)
                known = self.transcript.terminals.get(part.terminal_id)
                if known is not None:
                    shown.append(known)
        entry.terminals = tuple(shown)

    def _add(self, entry: Entry) -> int:
        at = len(self.entries)
        self.entries.append(entry)
        self.changed.add(at)
        return at

    def _change(self, at: int) -> None:
        entry = self.entries[at]
        entry.version += 1
        if isinstance(entry.content, ToolCall) and not entry.terminals:
            self._find_terminals(entry, at)
        self.changed.add(at)


# Images.


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


# The export.

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
    parts = [f"# {plain(title)}", *_markdown_parts(entries, cwd, pictures)]
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


def _markdown_parts(entries: Iterable[Entry], cwd: str, pictures: _Pictures) -> Iterator[str]:
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
