"""What the chat in lines writes: the printer, and tool calls, changes, plans and settings in words.

What begins at the left edge is from this program; text of agents is indented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from accord.client.events import Plan, ToolCall
from accord.client.transcript import TerminalTranscript, Transcript
from accord.text.excerpt import visible
from accord.types.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent
from accord.types.diffs import DiffLine, diff_lines
from accord.types.session import SelectOption
from accord.types.tool_calls import Diff
from accord_terminal.toolkit.terminal_output import fold_words
from accord_terminal.toolkit.text import last_lines, one_line, relative_path, relative_title
from accord_terminal.toolkit.tool_rows import diff_counts, diffs_of, lines_before_diff, text_of_call

INDENT = "  "
TAB = 4
MIN_WIDTH = 20  # a narrower terminal breaks the lines itself
MAX_LINE = 4000  # characters of a line that may contain text of an agent


class Printer:
    """Prints whole lines; `width` is None if nothing is to be folded."""

    def __init__(self, write: Callable[[str], None], width: Callable[[], int | None]) -> None:
        self.write = write
        self.width = width
        self._held: list[str] | None = None

    def say(self, text: str) -> None:
        """Print a line at the left edge; everything in it becomes part of the one line."""
        first, *rest = self._folded(one_line(text, MAX_LINE))
        self._put([first, *(f"{INDENT}{line}" for line in rest)])

    def below(self, texts: Iterable[str]) -> None:
        """Print lines with an indentation; control characters are made visible."""
        lines = [line for text in texts for line in visible(text).split("\n")]
        folded = (part for line in lines for part in self._folded(line.expandtabs(TAB).rstrip()))
        self._put([f"{INDENT}{part}".rstrip() for part in folded])

    def hold(self) -> None:
        """Keep the lines, since another program has the terminal."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Print what was kept."""
        held, self._held = self._held, None
        if held:
            self._put(held)

    def _folded(self, line: str) -> list[str]:
        width = self.width()
        if width is None or width < MIN_WIDTH:
            return [line]
        # The terminal must not break a line: the rest would begin at the left edge.
        kept = line[: len(line) - len(line.lstrip(" "))][: width // 2]
        return [kept + part for part in fold_words(line.lstrip(" "), width - 3 - len(kept))]

    def _put(self, lines: list[str]) -> None:
        if self._held is not None:
            self._held += lines
        elif lines:
            self.write("\n".join(lines) + "\n")


STATUS = {
    "pending": "running",
    "in_progress": "running",
    "completed": "done",
}
STEPS = {
    "pending": "to do",
    "in_progress": "now",
    "completed": "done",
}
LAST_LINES = 12  # of an output
MAX_LINES = 5000  # of a tool call that is shown as a whole


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def status_word(call: ToolCall) -> str:
    """Return the status of a tool call."""
    status = call.shown_status
    return STATUS.get(status, one_line(str(status), 40).replace("_", " "))


def call_title(call: ToolCall, cwd: str) -> str:
    """Return the title of a tool call."""
    return relative_title(call.title, cwd) or one_line(str(call.kind), 40)


def change_lines(call: ToolCall, cwd: str) -> Iterator[str]:
    """Yield how many lines a tool call has changed in each file."""
    for diff in diffs_of(call):
        added, removed = diff_counts(diff)
        path = one_line(relative_path(diff.path, cwd))
        yield f"{path}: {count(added, 'line')} added, {removed:,} removed"


def output_lines(call: ToolCall, terminals: Iterable[TerminalTranscript]) -> Iterator[str]:
    """Yield the last lines of what a command has written, and how it ended."""
    terminals = list(terminals)
    for terminal in terminals:
        yield from _last(terminal.output)
        if terminal.terminal.signal is not None:
            yield f"ended by {one_line(terminal.terminal.signal, 40)}"
        elif terminal.terminal.exit_code:
            yield f"exit status {terminal.terminal.exit_code}"
    if not terminals and (call.kind == "execute" or call.status == "failed"):
        text = text_of_call(call)
        if text.startswith("```"):  # the fence that agents put around output
            text = text.partition("\n")[2].rstrip().removesuffix("```")
        yield from _last(text)


def _last(output: bytes | bytearray | str) -> Iterator[str]:
    lines, more = last_lines(output, LAST_LINES)
    if more:
        yield f"Output, the last {len(lines)} lines:"
    elif lines:
        yield "Output:"
    yield from lines


def diff_words(lines: Iterable[DiffLine], lines_before: int = 0) -> Iterator[str]:
    """Yield the lines of a diff with what has happened to each in words."""
    for line in lines:
        number = line.old if line.sign == "-" else line.new
        place = f"line {number + lines_before}" if number else ""
        match line.sign:
            case "+":
                yield f"{place} added: {line.text}".lstrip()
            case "-":
                yield f"{place} removed: {line.text}".lstrip()
            case "gap":
                yield "further down:"
            case "remark":
                yield line.text
            case _:
                yield f"{place or 'same'}: {line.text}"


def whole_call(call: ToolCall, terminals: Iterable[TerminalTranscript], cwd: str) -> Iterator[str]:
    """Yield everything of a tool call."""
    for number, line in enumerate(_whole_call(call, terminals, cwd)):
        if number == MAX_LINES:
            yield "More lines are not shown."
            return
        yield line


def _whole_call(call: ToolCall, terminals: Iterable[TerminalTranscript], cwd: str) -> Iterator[str]:
    places = [one_line(relative_path(place.path, cwd)) for place in call.locations]
    if places:
        yield f"Files: {', '.join(dict.fromkeys(places))}"
    for part in call.content:
        match part:
            case Diff():
                yield f"Change of {one_line(relative_path(part.path, cwd))}:"
                before = lines_before_diff(part, call, cwd)
                yield from diff_words(diff_lines(part, lines_before=before))
            case str():
                yield from visible(part).strip("\n").split("\n")
            case ImageContent() | AudioContent() | EmbeddedResource():
                yield content_words(part)
            case _:
                pass
    for terminal in terminals:
        yield "Output:"
        yield from visible(terminal.text).rstrip("\n").split("\n")


def content_words(part: ContentBlock) -> str:
    """Return what content other than text is."""
    match part:
        case ImageContent(data=data, mime_type=mime_type):
            return f"An image, {one_line(mime_type, 40)}, {len(data):,} bytes"
        case AudioContent(data=data, mime_type=mime_type):
            return f"A sound, {one_line(mime_type, 40)}, {len(data):,} bytes"
        case EmbeddedResource(uri=uri):
            return f"A file: {one_line(uri, 400)}"
        case _:
            return "Content of an unknown kind"


def plan_line(plan: Plan) -> str:
    """Return how far a plan is."""
    if plan.uri is not None:
        return f"Plan: {one_line(plan.uri)}"
    if plan.markdown is not None:
        return "Plan: a text; :plan reads it"
    done = sum(entry.status in ("completed", "cancelled") for entry in plan.entries)
    now = next((one for one in plan.entries if one.status == "in_progress"), None)
    more = "" if now is None else f". Now: {one_line(now.content)}"
    return f"Plan: {done} of {len(plan.entries)} done{more}"


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the steps of a plan."""
    if plan.markdown is not None:
        yield from visible(plan.markdown).split("\n")
    for entry in plan.entries:
        status = STEPS.get(entry.status, one_line(str(entry.status), 40))
        yield f"{status}: {one_line(entry.content)}"


def setting_lines(transcript: Transcript) -> dict[str, str]:
    """Return the mode, the model and the other options, by id, as `name: value`."""
    shown: dict[str, str] = {}
    for option in transcript.options:
        if isinstance(option, SelectOption):
            names = {choice.value: choice.name for choice in option.choices}
            value = one_line(names.get(option.value, option.value), 60)
        else:
            value = "on" if option.value else "off"
        shown[option.id] = f"{one_line(option.name, 60)}: {value}"
    if transcript.mode_option is None and transcript.mode:
        shown["mode"] = f"Mode: {one_line(transcript.mode, 60)}"
    return shown


def json_text(value: Any) -> str:
    """Return any value as JSON."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, ValueError):
        return repr(value)
