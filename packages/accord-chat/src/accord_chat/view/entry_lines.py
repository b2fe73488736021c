"""The lines of each entry of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from textual.strip import Strip

from accord.client.events import Compaction, SessionMessage, ToolCall
from accord.client.transcript import Message
from accord.text.excerpt import output_lines
from accord.types.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Other,
    ResourceLink,
    text_of,
)
from accord.types.tool_calls import Diff
from accord_chat.model.conversation import Entry, Remark, picture_of, size_text
from accord_chat.view.lazy_lines import (
    FoldedRows,
    Lines,
    LongText,
    MadeLines,
    StackedLines,
    blank,
    indent,
    row_strips,
)
from accord_chat.view.pictures import Previews
from accord_terminal.toolkit.text import GUTTER, Row, one_line, printable, relative_path
from accord_terminal.toolkit.tool_rows import (
    diff_rows,
    diffs_of,
    gutter_rows,
    limited_diff_rows,
    lines_before_diff,
    output_rows,
    terminal_rows,
    text_of_call,
    title_rows,
)

FOLDED_DIFF_ROWS = 16
EXPANDED_ROWS = 2000  # the rest is in the viewer
EXPANDED_CHARACTERS = 200_000
ENDS = 4000  # characters of a thought that are looked at while it is folded
MAX_DIFF = 400_000  # characters that are compared while the screen is drawn
OTHER_CONTENT = (ImageContent, AudioContent, EmbeddedResource, ResourceLink, Other)
MAX_OTHERS = 50  # parts of a message other than text
LIVE_OUTPUT_LINES = 8
SEVERITY_STYLES = {
    "info": ("i", "cyan"),
    "warning": ("!", "yellow"),
    "error": ("✗", "red"),
    "quiet": ("·", "dim"),
}


_BLANK = MadeLines((blank(),))


class EntryLines:
    """Renders one entry at one width; of a long one, what is near the window."""

    def __init__(
        self, entry: Entry, width: int, previews: Previews, on_redraw: Callable[[], None]
    ) -> None:
        self.entry = entry
        self.width = width
        self._previews = previews
        self._on_redraw = on_redraw
        self._texts: dict[int, LongText] = {}
        self._replaced = entry.replaced
        self._shown_others = self._shown_pictures = 0
        self._rendered_version = -1
        self._rendered_expanded: bool | None = None
        self._lines: Lines = MadeLines(())

    def lines(self, cwd: str, joins: bool) -> Lines:
        """Return the lines; `joins` means that no line separates it from the entry above."""
        entry = self.entry
        if (entry.version, entry.expanded) != (self._rendered_version, self._rendered_expanded):
            self._rendered_version, self._rendered_expanded = entry.version, entry.expanded
            self._lines = self._render(cwd)
        if joins or not len(self._lines):
            return self._lines
        return StackedLines((_BLANK, self._lines))

    @property
    def made_lines(self) -> int:
        """How many lines of long texts are in memory."""
        return sum(text.made_lines for text in self._texts.values())

    def _render(self, cwd: str) -> Lines:
        width = max(self.width - 2, 4)
        self._shown_others = self._shown_pictures = 0
        match self.entry.content:
            case Message() as message:
                return self._message(message, width, cwd)
            case ToolCall() as call:
                rows = FoldedRows(self._call(call, cwd), width, "  ")
                if self.entry.expanded is False:
                    return rows
                return _with_contents(rows, self._contents(call.content, width, cwd), "  ")
            case Compaction() as compaction:
                return FoldedRows(_compaction(compaction), width, "  ")
            case SessionMessage(content=content) as message:
                rows = FoldedRows(_session_message(message), width, "  ")
                return _with_contents(rows, self._contents(content, width, cwd), "  ")
            case Remark() as remark:
                return FoldedRows(_remark(remark), width, "  ")

    def _message(self, message: Message, width: int, cwd: str) -> Lines:
        if message.role == "user":
            rows = FoldedRows(_prompt(message, self.entry.note), width, "▌ ", "bold blue")
            others = self._contents(message.content, width, cwd)
            return _with_contents(rows, others, "▌ ", "bold blue")
        if message.role == "thought":
            return FoldedRows(self._thought(message), width, "  ")
        return self._answer(message, width, cwd)

    def _answer(self, message: Message, width: int, cwd: str) -> Lines:
        """Return text and other content in their order."""
        if self.entry.replaced != self._replaced:
            self._replaced = self.entry.replaced
            self._texts = {}
        items: list[Lines] = []
        runs = [
            list(run) for _, run in groupby(message.content, lambda part: isinstance(part, str))
        ]
        for number, run in enumerate(runs):
            if isinstance(run[0], str):
                text = self._texts.setdefault(number, LongText(width, "  "))
                is_final = number < len(runs) - 1 or not self.entry.is_open
                text.update("\n\n".join(map(str, run)), is_final=is_final)
                more: Lines = text
            else:
                more = MadeLines(indent(self._contents(run, width, cwd), "  "))
            if len(more):
                items += [_BLANK, more] if items else [more]
        return items[0] if len(items) == 1 else StackedLines(items)

    def _contents(self, parts: Iterable[object], width: int, cwd: str) -> list[Strip]:
        """Return the lines of content other than text."""
        strips: list[Strip] = []
        for part in parts:
            if not isinstance(part, OTHER_CONTENT) or self._shown_others == MAX_OTHERS:
                continue
            self._shown_others += 1
            picture = picture_of(part)
            if picture is None:
                strips += row_strips(_content_rows(part, cwd), width)
            else:
                number, self._shown_pictures = self._shown_pictures, self._shown_pictures + 1
                strips += self._previews.lines(picture, number, width, self._redraw)
        return strips

    def _redraw(self) -> None:
        self._rendered_version = -1
        self._on_redraw()

    def _thought(self, message: Message) -> Iterator[Row]:
        whole = message.text
        if self.entry.expanded:
            yield Row("Thought", "dim bold", "▾ ", lead_style="dim")
            yield from _first_lines(whole.strip(), "dim italic", "  ")
            return
        text = printable((whole[-ENDS:] if self.entry.is_open else whole[:ENDS]).strip())
        if self.entry.is_open:  # the last line shows that it continues
            yield Row(
                one_line(text[-200:].rpartition("\n")[2] or text[-200:], 70),
                "dim italic",
                "▸ Thinking: ",
            )
        else:
            yield Row(one_line(text, 70), "dim italic", "▸ Thought: ", lead_style="dim")

    def _call(self, call: ToolCall, cwd: str) -> Iterator[Row]:
        expanded = self.entry.expanded
        diffs = list(diffs_of(call))
        is_large = sum(map(_size, diffs)) > MAX_DIFF
        yield from title_rows(call, cwd, counts=not is_large)
        if is_large:
            yield Row("A large change: v shows all of it", "dim", "  ")
            diffs = []
        for diff in diffs:
            if len(diffs) > 1:
                yield Row(one_line(relative_path(diff.path, cwd)), "bold", "  ")
            if expanded is False:
                continue
            most = EXPANDED_ROWS if expanded else FOLDED_DIFF_ROWS
            yield from limited_diff_rows(diff, _lines_before(self.entry, diff, call, cwd), most)
        if expanded is False:
            return
        if self.entry.terminals:
            for terminal in self.entry.terminals:
                most = EXPANDED_ROWS if expanded else LIVE_OUTPUT_LINES
                yield from terminal_rows(terminal, most)
        elif expanded:
            text = text_of_call(call)[:EXPANDED_CHARACTERS]
            lines = output_lines(text) if text.strip() else []
            yield from gutter_rows(lines[:EXPANDED_ROWS], False)
            if len(lines) > EXPANDED_ROWS:
                yield Row(f"… {len(lines) - EXPANDED_ROWS} more lines", "dim", GUTTER)
        else:
            yield from output_rows(call)


def _with_contents(rows: Lines, strips: list[Strip], lead: str, style: str = "") -> Lines:
    """Return rows with the lines of other content below them."""
    return StackedLines((rows, MadeLines(indent(strips, lead, style)))) if strips else rows


def _prompt(message: Message, note: str) -> Iterator[Row]:
    texts = [part for part in message.content if isinstance(part, str)]
    if texts:
        yield from _first_lines("\n".join(texts), "bold")
    if note:
        yield Row(one_line(note), "dim", "↳ ", lead_style="dim")


def _first_lines(text: str, style: str, lead: str = "") -> Iterator[Row]:
    """Yield the first lines of a text, and that the viewer has the rest."""
    lines = printable(text[:EXPANDED_CHARACTERS]).split("\n")
    for line in lines[:EXPANDED_ROWS]:
        yield Row(line, style, lead)
    if len(lines) > EXPANDED_ROWS or len(text) > EXPANDED_CHARACTERS:
        yield Row("… v shows all of it", "dim", lead)


def _size(diff: Diff) -> int:
    return sum(len(text) for text in (diff.old, diff.new, diff.patch) if text)


def _lines_before(entry: Entry, diff: Diff, call: ToolCall, cwd: str) -> int | None:
    """Return the place of a diff; one that was found stays, also if the file changes later.

    One that was not found is searched again only if the file or the call has changed.
    """
    if diff in entry.places:
        return entry.places[diff]
    state = call.status == "completed", _state_of_file(cwd, diff.path)
    if entry.without_place.get(diff) == state:
        return None
    found = lines_before_diff(diff, call, cwd)
    if found is None:
        if len(entry.without_place) > len(call.content):
            entry.without_place.clear()  # most are of earlier versions
        entry.without_place[diff] = state
    else:
        entry.places[diff] = found
    return found


def _state_of_file(cwd: str, path: str) -> tuple[int, int, int] | None:
    """Return what changes with the content of a file, None without the file."""
    try:
        status = Path(normpath(Path(cwd, path))).stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _content_rows(part: ContentBlock, cwd: str) -> Iterator[Row]:
    """Yield what is shown of content other than text and images."""
    match part:
        case AudioContent(data=data, mime_type=mime_type):
            kind = one_line(mime_type, 40)
            yield Row(f"{kind} · {size_text(len(data))} · not played", "magenta", "♪ ")
        case ResourceLink(uri=uri):
            yield Row(one_line(_place(uri, cwd), 400), "cyan", "→ ")
        case EmbeddedResource(uri=uri, content=content, mime_type=mime_type):
            size = size_text(len(content.encode() if isinstance(content, str) else content))
            about = " · ".join(filter(None, [one_line(mime_type or "", 40), size]))
            yield Row(f"{one_line(_place(uri, cwd), 400)} ({about})", "cyan", "→ ")
        case str():
            for line in printable(part).split("\n"):
                yield Row(line)
        case _:
            yield Row("[content of an unknown kind]", "dim")


def entry_title(entry: Entry) -> str:
    """Return the title of an entry that is shown on its own."""
    match entry.content:
        case ToolCall(title=title):
            return one_line(title, 80)
        case Message(role=role):
            return {"user": "Your prompt", "agent": "Answer", "thought": "Thought"}[role]
        case _:
            return ""


def viewer_rows(entry: Entry, cwd: str) -> Iterator[Row]:
    """Yield everything of an entry, for the viewer."""
    match entry.content:
        case Message() as message:
            for line in printable(message.text).split("\n"):
                yield Row(line)
        case ToolCall() as call:
            yield from title_rows(call, cwd)
            for diff in diffs_of(call):
                yield Row(one_line(relative_path(diff.path, cwd)), "bold", "  ")
                yield from diff_rows(diff, _lines_before(entry, diff, call, cwd))
            for terminal in entry.terminals:
                for line in output_lines(terminal.text):
                    yield Row(line, "", GUTTER, whole_words=False)
            for line in output_lines(text_of_call(call)):
                yield Row(line, "", GUTTER, whole_words=False)
        case Remark() as remark:
            yield from _remark(remark)
        case other:
            yield Row(printable(str(other)))


def _compaction(compaction: Compaction) -> Iterator[Row]:
    words = {"in_progress": "Compacting the conversation …", "completed": "Conversation compacted"}
    status = str(compaction.status)
    yield Row(words.get(status, f"Compaction: {one_line(status, 40)}"), "magenta", "⇣ ")
    if compaction.error:
        yield Row(one_line(compaction.error), "red", "  ")
    for part in compaction.summary:
        if isinstance(part, str):
            for line in printable(part).split("\n")[:20]:
                yield Row(line, "dim", "  ")


def _session_message(message: SessionMessage) -> Iterator[Row]:
    ends = " → ".join(one_line(end or "?", 40) for end in (message.sender, message.recipient))
    yield Row(ends, "bold magenta", "✉ ")
    for line in printable(text_of(message.content)).split("\n")[:EXPANDED_ROWS]:
        yield Row(line, "", "  ")


def _remark(remark: Remark) -> Iterator[Row]:
    mark, style = SEVERITY_STYLES.get(remark.severity, SEVERITY_STYLES["info"])
    yield Row(one_line(remark.text, 1000), style, f"{mark} ", lead_style=style)
    if remark.details:
        for line in printable(remark.details).split("\n")[:50]:
            yield Row(line, "", "  ")


def is_expandable(entry: Entry) -> bool:
    """Return whether an entry has a short and a long form."""
    content = entry.content
    return isinstance(content, ToolCall) or (
        isinstance(content, Message) and content.role == "thought"
    )


def estimated_height(entry: Entry, width: int) -> int:
    """Return about how many lines an entry has, without rendering it."""
    match entry.content:
        case Message(role="thought"):
            return 2
        case Message() as message:
            text = message.text
            begin = text[:ENDS]
            rows = len(begin) // max(min(width, 100) - 4, 1) + begin.count("\n")
            return 1 + max(1, rows * len(text) // max(len(begin), 1))
        case _:
            return 2


def _place(uri: str, cwd: str) -> str:
    """Return the whole target of a link; a file of the folder as its relative path."""
    if not uri.startswith("file://"):
        return uri
    path = unquote(urlsplit(uri).path)
    shown = relative_path(path, cwd)
    return shown if shown != path else uri
