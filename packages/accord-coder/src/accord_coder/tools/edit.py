"""The tool `edit`: changes a file by exact replacements, all or none."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord import ToolCallLocation
from accord_coder.files import LoadedText
from accord_coder.tool_results import Access, Outcome, ToolFailed, count_noun
from accord_coder.tools.base import Tool

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.context import ToolContext


_MAX_PLACES = 10  # listed in a message


class Replacement(Struct, frozen=True):
    """One replacement."""

    old: Annotated[str, Meta(description="The exact text to replace, including white space")]
    new: Annotated[str, Meta(description="The new text")]
    all: Annotated[bool, Meta(description="Replace all occurrences")] = False


class EditArguments(Struct, frozen=True):
    """The arguments of `edit`."""

    path: Annotated[str, Meta(description="The file, absolute or below the working directory")]
    edits: Annotated[
        list[Replacement],
        Meta(min_length=1, description="Applied in order, each to the result of the previous one"),
    ]


class Edit(Tool[EditArguments]):
    """Changes a file by exact replacements."""

    name = "edit"
    kind = "edit"
    description = (
        "Change a text file that you have read by exact replacements. Each `old` must "
        "occur once, unless `all` is set: include enough lines around it. If one "
        "replacement is not possible, none is made."
    )
    arguments_type = EditArguments

    def title(self, args: EditArguments, context: ToolContext) -> str:
        """Return a title with the path."""
        return f"Edit {context.files.shown(args.path)}"

    def locations(self, args: EditArguments, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Return the file; the line is added when it is known."""
        return (ToolCallLocation(context.files.absolute(args.path)),)

    def access(self, args: EditArguments, context: ToolContext) -> Access:
        """Return an edit of the file."""
        return Access("edit", (context.files.absolute(args.path),))

    async def preview(
        self, args: EditArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Show the change if the file can be read without permission."""
        if await context.files.is_reachable(args.path):
            await _changed(args, call, context, previews=True)

    async def run(self, args: EditArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Apply the replacements."""
        loaded, text, lines = await _changed(args, call, context, previews=False)
        await context.files.store(args.path, loaded, text)
        at = _lines(lines)
        made = count_noun(len(lines), "replacement", "replacements")
        return Outcome((f"Made {made} in {context.files.shown(args.path)}, at {at}.",))


async def _changed(
    args: EditArguments, call: ToolCallHandle, context: ToolContext, *, previews: bool
) -> tuple[LoadedText, str, list[int]]:
    """Show the change; return the old text, the new text, and the changed lines."""
    files = context.files
    loaded = await files.load_for_change(args.path, previews=previews)
    if loaded is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args.path)
    await files.check(loaded)
    text, lines = _replaced(loaded.text, args, files.shown(args.path))
    absolute = files.absolute(args.path)
    place = ToolCallLocation(absolute, lines[0])
    if call.locations != (place,):
        await call.update(locations=[place])
    await call.add_diff(absolute, loaded.raw, loaded.raw_of(text))
    return loaded, text, lines


def _replaced(text: str, args: EditArguments, name: str) -> tuple[str, list[int]]:
    """Return the new text and the first lines of the replacements; raise `ToolFailed`."""
    crlf = "\r\n" in text
    lines: list[int] = []
    for number, edit in enumerate(args.edits, 1):
        old, new = edit.old, edit.new
        if not crlf:  # models can write the line ends of the file on disk
            old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
        which = "`old`" if len(args.edits) == 1 else f"`old` of replacement {number}"
        _check(text, old, new, which, name, every=edit.all)
        lines.extend(_lines_of(text, old))
        text = text.replace(old, new)
    return text, lines


def _lines_of(text: str, old: str) -> list[int]:
    """Return the line of each occurrence that is replaced."""
    found: list[int] = []
    line, start = 1, 0
    while (at := text.find(old, start)) >= 0:
        line += text.count("\n", start, at)
        found.append(line)
        line += old.count("\n")
        start = at + len(old)
    return found


def _lines(lines: list[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    more = ", …" if len(lines) > _MAX_PLACES else ""
    return f"lines {', '.join(map(str, lines[:_MAX_PLACES]))}{more}"


def _check(text: str, old: str, new: str, which: str, name: str, *, every: bool) -> None:
    unchanged = "Nothing was changed."
    if not old:
        raise ToolFailed(f"{which} is empty: use write for a whole file. {unchanged}")
    if old == new:
        raise ToolFailed(f"{which} is equal to `new`. {unchanged}")
    places = _places(text, old)
    if not places:
        raise ToolFailed(f"{which} does not occur in {name}. {_nearest(text, old)}{unchanged}")
    if len(places) > 1 and not every:
        lines = ", ".join(str(_line_of(text, at)) for at in places[:_MAX_PLACES])
        more = ", …" if len(places) > _MAX_PLACES else ""
        raise ToolFailed(
            f"{which} occurs {len(places)} times in {name}, at lines {lines}{more}: include"
            f" more of the text around it, or set `all`. {unchanged}"
        )


def _places(text: str, old: str) -> list[int]:
    """Return all occurrences, overlapping ones included: they are ambiguous, too."""
    found: list[int] = []
    at = text.find(old)
    while at >= 0:
        found.append(at)
        at = text.find(old, at + 1)
    return found


def _nearest(text: str, old: str) -> str:
    """Return a hint: lines that equal the first line of the text except for white space."""
    first = next((line.split() for line in old.splitlines() if line.strip()), None)
    if first is None:
        return ""
    lines = [number for number, line in enumerate(text.split("\n"), 1) if line.split() == first]
    if not lines:
        return "Read the file again. "
    at = ", ".join(map(str, lines[:_MAX_PLACES]))
    return f"Its first line is like line {at}, so white space or what follows differs. "


def _line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
