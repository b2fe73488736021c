"""The tools that change files: `write`, `edit`, `move` and `delete`.

`write` creates files, or replaces files that were read. `edit` makes exact replacements, all or
none.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord import ToolCallLocation
from accord_coder.files import LoadedText
from accord_coder.tool_results import Access, Outcome, ToolFailed, count_noun
from accord_coder.tools import Tool

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.decision import ToolContext


class WriteArguments(Struct, frozen=True):
    """The arguments of `write`."""

    path: Annotated[str, Meta(description="The file, absolute or below the working directory")]
    text: Annotated[str, Meta(description="The whole text")]


class Write(Tool[WriteArguments]):
    """Writes a file."""

    name = "write"
    kind = "edit"
    description = (
        "Create a text file with its directories, or replace one that you have "
        "read. To change a part of a file use edit."
    )
    arguments_type = WriteArguments

    def title(self, args: WriteArguments, context: ToolContext) -> str:
        """Return a title with the path."""
        return f"Write {context.files.shown(args.path)}"

    def locations(self, args: WriteArguments, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Return the file."""
        return (ToolCallLocation(context.files.absolute(args.path), 1),)

    def access(self, args: WriteArguments, context: ToolContext) -> Access:
        """Return an edit of the file."""
        return Access("edit", (context.files.absolute(args.path),))

    async def preview(
        self, args: WriteArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Show the change if the file can be read without permission."""
        if await context.files.is_reachable(args.path):
            await _show_text(args, call, context, previews=True)

    async def run(
        self, args: WriteArguments, call: ToolCallHandle, context: ToolContext
    ) -> Outcome:
        """Write the text."""
        old = await _show_text(args, call, context, previews=False)
        await context.files.store(args.path, old, args.text)
        lines = args.text.count("\n") + (not args.text.endswith("\n") and bool(args.text))
        name = context.files.shown(args.path)
        verb = "Created" if old is None else "Wrote"
        return Outcome((f"{verb} {name}: {count_noun(lines, 'line', 'lines')}.",))


async def _show_text(
    args: WriteArguments, call: ToolCallHandle, context: ToolContext, *, previews: bool
) -> LoadedText | None:
    """Show the change; return the existing text, which the model must know."""
    old = await context.files.load_for_change(args.path, previews=previews)
    if old is None:
        await call.add_diff(context.files.absolute(args.path), None, args.text)
        return None
    await context.files.check(old)
    await call.add_diff(context.files.absolute(args.path), old.raw, old.raw_of(args.text))
    return old


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

    def access(self, args: EditArguments, context: ToolContext) -> Access:
        """Return an edit of the file."""
        return Access("edit", (context.files.absolute(args.path),))

    async def preview(
        self, args: EditArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Show the change if the file can be read without permission."""
        if await context.files.is_reachable(args.path):
            await _show_edits(args, call, context, previews=True)

    async def run(self, args: EditArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Apply the replacements."""
        loaded, text, lines = await _show_edits(args, call, context, previews=False)
        await context.files.store(args.path, loaded, text)
        at = _lines(lines)
        made = count_noun(len(lines), "replacement", "replacements")
        return Outcome((f"Made {made} in {context.files.shown(args.path)}, at {at}.",))


async def _show_edits(
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


class MoveArguments(Struct, frozen=True):
    """The arguments of `move`."""

    source: Annotated[str, Meta(description="The file or directory")]
    target: Annotated[str, Meta(description="Its new path, which must not exist")]


class Move(Tool[MoveArguments]):
    """Moves a file or directory."""

    name = "move"
    kind = "move"
    description = (
        "Move or rename a file or directory. Missing directories are created; nothing is "
        "overwritten."
    )
    arguments_type = MoveArguments

    def title(self, args: MoveArguments, context: ToolContext) -> str:
        """Return a title with both paths."""
        return f"Move {context.files.shown(args.source)} to {context.files.shown(args.target)}"

    def access(self, args: MoveArguments, context: ToolContext) -> Access:
        """Return an edit of both paths."""
        paths = (context.files.absolute(args.source), context.files.absolute(args.target))
        return Access("edit", paths, itself=True)

    async def preview(
        self, args: MoveArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Fail before the user is asked if the move is not possible."""
        files = context.files
        await files.require_entry(args.source)
        if await files.is_reachable(args.target) and await files.has_entry(args.target):
            raise _in_the_way(files.shown(args.target))

    async def run(self, args: MoveArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Move it."""
        files = context.files
        source, target = files.absolute(args.source), files.absolute(args.target)
        await _check_saved(source, context)
        try:
            await asyncio.to_thread(files.roots.move, source, target)
        except FileExistsError:
            raise _in_the_way(files.shown(target)) from None
        except OSError as exc:
            if exc.errno == errno.EXDEV:
                raise ToolFailed(
                    "The paths are on different file systems: write the new file, delete the old."
                ) from exc
            if exc.errno == errno.EINVAL:
                raise ToolFailed("A directory cannot be moved into itself.") from exc
            raise
        await files.on_moved(source, target)
        text = f"Moved {files.shown(source)} to {files.shown(target)}."
        await call.add_content(text)
        return Outcome((text,))


def _in_the_way(target: str) -> ToolFailed:
    return ToolFailed(f"{target} already exists. Nothing was moved.")


class DeleteArguments(Struct, frozen=True):
    """The arguments of `delete`."""

    path: Annotated[str, Meta(description="The file, or an empty directory")]


class Delete(Tool[DeleteArguments]):
    """Deletes a file."""

    name = "delete"
    kind = "delete"
    description = "Delete a file, a link (not its target), or an empty directory."
    arguments_type = DeleteArguments

    def title(self, args: DeleteArguments, context: ToolContext) -> str:
        """Return a title with the path."""
        return f"Delete {context.files.shown(args.path)}"

    def access(self, args: DeleteArguments, context: ToolContext) -> Access:
        """Return a deletion of the path."""
        return Access("delete", (context.files.absolute(args.path),), itself=True)

    async def preview(
        self, args: DeleteArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Show the deleted text if the file can be read without permission."""
        await context.files.require_entry(args.path)
        path = context.files.absolute(args.path)
        if await context.files.is_reachable(path) and await asyncio.to_thread(_is_file, path):
            try:
                loaded = await context.files.load(path)
            except ToolFailed:
                return  # not text
            await call.add_diff(path, loaded.raw, None)

    async def run(
        self, args: DeleteArguments, call: ToolCallHandle, context: ToolContext
    ) -> Outcome:
        """Delete it."""
        path = context.files.absolute(args.path)
        await _check_saved(path, context)
        try:
            await asyncio.to_thread(context.files.roots.remove, path)
        except OSError as exc:
            if exc.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise ToolFailed(
                    f"{context.files.shown(path)} is a directory that is not empty. Nothing was "
                    "deleted: delete its files first."
                ) from exc
            raise
        text = f"Deleted {context.files.shown(path)}."
        await call.add_content(text)
        return Outcome((text,))


async def _check_saved(path: str, context: ToolContext) -> None:
    """Raise `ToolFailed` if unsaved changes in the editor would be lost."""
    if await asyncio.to_thread(_is_file, path):
        await context.files.check_saved(path)


def _is_file(path: str) -> bool:
    """Return whether a path is a file and not a link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
