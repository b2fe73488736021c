"""Changes a file by exact replacements, all of them or none."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord import ToolCallLocation
from accord_coder.files import LoadedText
from accord_coder.tools.base import Tool
from accord_coder.tools.formatting import count_noun
from accord_coder.tools.result import Access, Outcome, ToolFailed

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.tools.context import ToolContext

__all__ = ("Edit", "EditArguments", "Replacement")

_MAX_PLACES = 10  # named in a message


class Replacement(Struct, frozen=True):
    """One replacement."""

    old: Annotated[str, Meta(description="The exact text to replace, white space and all")]
    new: Annotated[str, Meta(description="What to put in its place")]
    all: Annotated[bool, Meta(description="Replace it wherever it occurs")] = False


class EditArguments(Struct, frozen=True):
    """What to change."""

    path: Annotated[str, Meta(description="The file, absolute or below the working directory")]
    edits: Annotated[
        list[Replacement],
        Meta(min_length=1, description="Made one after the other, each on what the last one left"),
    ]


class Edit(Tool[EditArguments]):
    """See the module."""

    name = "edit"
    kind = "edit"
    description = (
        "Change a text file that you have read by replacing exact pieces of it. Each `old` has to "
        "occur once, unless `all` is set: give as many lines around it as that takes. When one "
        "replacement is not possible, none is made."
    )
    arguments_type = EditArguments

    def title(self, args: EditArguments, context: ToolContext) -> str:
        """Name the file."""
        return f"Edit {context.files.shown(args.path)}"

    def locations(self, args: EditArguments, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Point at the file; at the line once it is known."""
        return (ToolCallLocation(context.files.absolute(args.path)),)

    def access(self, args: EditArguments, context: ToolContext) -> Access:
        """Changes the file."""
        return Access("edit", (context.files.absolute(args.path),))

    async def preview(
        self, args: EditArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Show the change, of a file that may be looked at."""
        if await context.files.is_reachable(args.path):
            await _changed(args, call, context, previews=True)

    async def run(self, args: EditArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Make the replacements."""
        loaded, text, lines = await _changed(args, call, context, previews=False)
        await context.files.store(args.path, loaded, text)
        at = _lines(lines)
        made = count_noun(len(lines), "replacement", "replacements")
        return Outcome((f"Made {made} in {context.files.shown(args.path)}, at {at}.",))


async def _changed(
    args: EditArguments, call: ToolCallHandle, context: ToolContext, *, previews: bool
) -> tuple[LoadedText, str, list[int]]:
    """Show the change; return the text as it was and will be, and where it changes."""
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
    """Return the new text and the lines that replacements begin at; raise `ToolFailed`."""
    crlf = "\r\n" in text
    lines: list[int] = []
    for number, edit in enumerate(args.edits, 1):
        old, new = edit.old, edit.new
        if not crlf:  # models may write the line ends that the file has on the disk
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
        raise ToolFailed(f"{which} is the same as `new`. {unchanged}")
    places = _places(text, old)
    if not places:
        raise ToolFailed(f"{which} does not occur in {name}. {_nearest(text, old)}{unchanged}")
    if len(places) > 1 and not every:
        lines = ", ".join(str(_line_of(text, at)) for at in places[:_MAX_PLACES])
        more = ", …" if len(places) > _MAX_PLACES else ""
        raise ToolFailed(
            f"{which} occurs {len(places)} times in {name}, at lines {lines}{more}: give more of "
            f"the text around it, or set `all`. {unchanged}"
        )


def _places(text: str, old: str) -> list[int]:
    """Return where a text occurs, occurrences that overlap too: they are ambiguous as well."""
    found: list[int] = []
    at = text.find(old)
    while at >= 0:
        found.append(at)
        at = text.find(old, at + 1)
    return found


def _nearest(text: str, old: str) -> str:
    """Say where the first line of what was not found is, if it is, but for white space."""
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
