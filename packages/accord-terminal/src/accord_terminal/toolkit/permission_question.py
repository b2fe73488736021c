"""The permission question at the terminal: the whole action, and the agent's own options."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from accord.client.events import Decision, PermissionRequest
from accord.client.permissions import command_of, is_distinct
from accord.text.excerpt import visible
from accord.types.permission import PermissionOption
from accord_terminal.toolkit.diff_rows import diff_rows
from accord_terminal.toolkit.excerpt_place import lines_before_diff
from accord_terminal.toolkit.rows import GUTTER, Row
from accord_terminal.toolkit.safe_text import (
    one_line,
    printable,
    relative_path,
    relative_title,
)
from accord_terminal.toolkit.tool_rows import diffs_of, text_of_call

if TYPE_CHECKING:
    from accord_terminal.toolkit.writer import Writer


MAX_OPTIONS = 30
MAX_CHARACTERS = 1_000_000  # of an action
LONG_TITLE = 100  # characters: it may not fit above the action
KINDS = {
    "allow_once": "allows it once",
    "allow_always": "allows it always",
    "reject_once": "rejects it once",
    "reject_always": "rejects it always",
}

# Asks for a line; None at the end of the input.
ReadLine = Callable[[str], Awaitable[str | None]]


async def ask_permission(
    request: PermissionRequest, agent: str, writer: Writer, read_line: ReadLine
) -> Decision:
    """Return the option that the user chooses. Options that are not shown cannot be chosen."""

    def show(*rows: Row) -> None:
        writer.write_lines(writer.render_rows(rows))

    call, cwd = request.tool_call, request.cwd
    title = relative_title(request.title or (call.title if call else ""), cwd)
    show(Row(f"{one_line(agent, 40)} asks: {title or 'May I continue?'}", "bold yellow"))
    left = await _show_pages(writer, writer.render_rows(request_rows(request, title)), read_line)
    if left:
        show(Row(f"{left} lines were not shown.", "yellow", "  "))
    options = request.options[:MAX_OPTIONS]
    if not options:
        show(Row("The agent sent no options to choose from.", "yellow", "  "))
        return "cancel"
    writer.write_lines([""])
    names = [one_line(option.name) or one_line(option.id) for option in options]
    for number, (option, name) in enumerate(zip(options, names, strict=True), 1):
        kind = KINDS.get(option.kind) or one_line(str(option.kind), 40)
        show(Row(f"{name}  ({kind})", "", f"  {number}) ", lead_style="bold"))
    if more := len(request.options) - len(options):
        show(Row(f"{more} more options are not shown and cannot be chosen.", "yellow", "  "))
    while True:
        line = await read_line(f"Choose 1 to {len(options)}: " if len(options) > 1 else "Type 1: ")
        if line is None:
            rejecting = [option for option in options if option.kind == "reject_once"]
            return rejecting[0] if rejecting else "cancel"
        if (chosen := _find_option(options, names, line.strip())) is not None:
            if is_distinct(chosen, request.options):
                return chosen
            show(
                Row(
                    "The agent cannot distinguish this option from another one: cancelled.",
                    "yellow",
                    "  ",
                )
            )
            return "cancel"
        show(Row("Type the number of an option, or its name.", "yellow", "  "))


def _find_option(
    options: Sequence[PermissionOption], names: Sequence[str], text: str
) -> PermissionOption | None:
    if text.isascii() and text.isdigit():
        shown = {str(number): option for number, option in enumerate(options, 1)}
        return shown.get(text)
    same = [n for n, name in enumerate(names) if name.casefold() == text.casefold()]
    return options[same[0]] if len(same) == 1 else None


async def _show_pages(writer: Writer, lines: Sequence[str], read_line: ReadLine) -> int:
    """Show lines, one screen at a time; return how many the user skipped."""
    page = max(writer.size[1] - 4, 3)
    at = 0
    while True:
        writer.write_lines(lines[at : at + page])
        at += page
        if at >= len(lines):
            return 0
        line = await read_line(f"— {len(lines) - at} more lines: Enter shows them, s skips them ")
        if line is None or line.strip().lower() == "s":
            return len(lines) - at


def request_rows(request: PermissionRequest, title: str) -> Iterator[Row]:
    """Yield the action of a request, without its title."""
    call, cwd = request.tool_call, request.cwd
    yield from _text_rows(printable(request.description or ""), "", "  ")
    command = command_of(request)
    whole = (request.title or (call.title if call else "")).strip()
    if len(whole) > LONG_TITLE and command is None:
        yield from _text_rows(visible(whole), "bold", "  ")  # the title shows its ends
    if command is not None:
        yield from _text_rows(visible(command), "cyan", "    ", "  $ ")
    if call is None:
        return
    shown = command is not None
    diffs = list(diffs_of(call))
    for diff in diffs:
        path = one_line(relative_path(diff.path, cwd))
        if len(diffs) > 1 or path not in title:
            yield Row(path, "bold", "  ")
        yield from diff_rows(diff, lines_before_diff(diff, call, cwd))
        shown = True
    text = text_of_call(call)
    if text.strip() and (command is None or _is_other(text, command)):
        yield from _text_rows(printable(text.strip("\n")), "", GUTTER)
        shown = True
    if not shown and call.raw_input is not None:
        yield from _text_rows(visible(_json(call.raw_input)), "cyan", "  ")
    paths = {one_line(relative_path(diff.path, cwd)) for diff in diffs}
    places = [one_line(relative_path(place.path, cwd)) for place in call.locations]
    if places := [path for path in places if path not in paths and path not in title]:
        yield Row(", ".join(dict.fromkeys(places)), "dim", "  ")


def _is_other(text: str, command: str) -> bool:
    """Return whether a text is not just the command line, perhaps in a code block."""
    lines = text.strip().splitlines()
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1] == "```":
        lines = lines[1:-1]
    return "\n".join(lines) != command


def _text_rows(text: str, style: str, lead: str, first: str | None = None) -> Iterator[Row]:
    """Yield the lines of a text, up to `MAX_CHARACTERS`."""
    if not text:
        return
    left = len(text) - MAX_CHARACTERS
    for line in text[:MAX_CHARACTERS].split("\n"):
        yield Row(line, style, lead if first is None else first, lead, "dim", whole_words=False)
        first = None
    if left > 0:
        yield Row(f"{left} more characters are not shown.", "yellow", lead)


def _json(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, ValueError):
        return repr(value)
