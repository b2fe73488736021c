"""Moves and deletes files."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord import Location
from accord_coder.tools.base import Access, Outcome, Tool, ToolFailed

if TYPE_CHECKING:
    from accord.agent.tool_call import ToolCall
    from accord_coder.loop.session_state import Work

__all__ = ("Delete", "Deleting", "Move", "Moving")


class Moving(Struct, frozen=True):
    """What to move."""

    source: Annotated[str, Meta(description="The file or directory")]
    target: Annotated[str, Meta(description="Its new path, where nothing may be")]


class Move(Tool[Moving]):
    """Moves a file or directory."""

    name = "move"
    kind = "move"
    description = (
        "Move or rename a file or directory. Directories on the way are made; nothing is "
        "overwritten."
    )
    takes = Moving

    def title(self, given: Moving, work: Work) -> str:
        """Name both paths."""
        return f"Move {work.files.shown(given.source)} to {work.files.shown(given.target)}"

    def locations(self, given: Moving, work: Work) -> Sequence[Location]:
        """Point at both."""
        files = work.files
        return (Location(files.absolute(given.source)), Location(files.absolute(given.target)))

    def access(self, given: Moving, work: Work) -> Access:
        """Changes both paths."""
        paths = (work.files.absolute(given.source), work.files.absolute(given.target))
        return Access("edit", paths, itself=True)

    async def preview(self, given: Moving, call: ToolCall, work: Work) -> None:
        """Ask nobody about what cannot be done."""
        files = work.files
        await files.need_entry(given.source)
        if await files.is_reachable(given.target) and await files.has_entry(given.target):
            raise _in_the_way(files.shown(given.target))

    async def run(self, given: Moving, call: ToolCall, work: Work) -> Outcome:
        """Rename it."""
        files = work.files
        source, target = files.absolute(given.source), files.absolute(given.target)
        await _check_saved(source, work)
        try:
            await asyncio.to_thread(files.roots.move, source, target)
        except FileExistsError:
            raise _in_the_way(files.shown(target)) from None
        except OSError as exc:
            if exc.errno == errno.EXDEV:
                raise ToolFailed(
                    "They are on different file systems: write the new file and delete the old."
                ) from exc
            if exc.errno == errno.EINVAL:
                raise ToolFailed("A directory cannot be moved into itself.") from exc
            raise
        await files.moved(source, target)
        text = f"Moved {files.shown(source)} to {files.shown(target)}."
        await call.content(text)
        return Outcome((text,))


def _in_the_way(target: str) -> ToolFailed:
    return ToolFailed(f"{target} is there already. Nothing was moved.")


class Deleting(Struct, frozen=True):
    """What to delete."""

    path: Annotated[str, Meta(description="The file, or an empty directory")]


class Delete(Tool[Deleting]):
    """Deletes a file."""

    name = "delete"
    kind = "delete"
    description = "Delete a file, a link (not what it leads to), or an empty directory."
    takes = Deleting

    def title(self, given: Deleting, work: Work) -> str:
        """Name the path."""
        return f"Delete {work.files.shown(given.path)}"

    def locations(self, given: Deleting, work: Work) -> Sequence[Location]:
        """Point at it."""
        return (Location(work.files.absolute(given.path)),)

    def access(self, given: Deleting, work: Work) -> Access:
        """Deletes the path."""
        return Access("delete", (work.files.absolute(given.path),), itself=True)

    async def preview(self, given: Deleting, call: ToolCall, work: Work) -> None:
        """Show what would be gone, of a text that may be looked at."""
        await work.files.need_entry(given.path)
        path = work.files.absolute(given.path)
        if await work.files.is_reachable(path) and await asyncio.to_thread(_is_file, path):
            try:
                loaded = await work.files.load(path)
            except ToolFailed:
                return  # no text
            await call.diff(path, loaded.raw, None)

    async def run(self, given: Deleting, call: ToolCall, work: Work) -> Outcome:
        """Delete it."""
        path = work.files.absolute(given.path)
        await _check_saved(path, work)
        try:
            await asyncio.to_thread(work.files.roots.remove, path)
        except OSError as exc:
            if exc.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise ToolFailed(
                    f"{work.files.shown(path)} is a directory that is not empty. Nothing was "
                    "deleted: delete what is in it first."
                ) from exc
            raise
        text = f"Deleted {work.files.shown(path)}."
        await call.content(text)
        return Outcome((text,))


async def _check_saved(path: str, work: Work) -> None:
    """Raise `ToolFailed` when changes that are in the editor alone would be lost."""
    if await asyncio.to_thread(_is_file, path):
        await work.files.check_saved(path)


def _is_file(path: str) -> bool:
    """Tell whether it is a file and no link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
