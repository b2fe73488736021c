"""Moves and deletes files."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord import ToolCallLocation
from accord_coder.tools.base import Tool
from accord_coder.tools.result import Access, Outcome, ToolFailed

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.tools.context import ToolContext

__all__ = ("Delete", "DeleteArguments", "Move", "MoveArguments")


class MoveArguments(Struct, frozen=True):
    """What to move."""

    source: Annotated[str, Meta(description="The file or directory")]
    target: Annotated[str, Meta(description="Its new path, where nothing may be")]


class Move(Tool[MoveArguments]):
    """Moves a file or directory."""

    name = "move"
    kind = "move"
    description = (
        "Move or rename a file or directory. Directories on the way are made; nothing is "
        "overwritten."
    )
    arguments_type = MoveArguments

    def title(self, given: MoveArguments, work: ToolContext) -> str:
        """Name both paths."""
        return f"Move {work.files.shown(given.source)} to {work.files.shown(given.target)}"

    def locations(self, given: MoveArguments, work: ToolContext) -> Sequence[ToolCallLocation]:
        """Point at both."""
        files = work.files
        return (
            ToolCallLocation(files.absolute(given.source)),
            ToolCallLocation(files.absolute(given.target)),
        )

    def access(self, given: MoveArguments, work: ToolContext) -> Access:
        """Changes both paths."""
        paths = (work.files.absolute(given.source), work.files.absolute(given.target))
        return Access("edit", paths, itself=True)

    async def preview(self, given: MoveArguments, call: ToolCallHandle, work: ToolContext) -> None:
        """Ask nobody about what cannot be done."""
        files = work.files
        await files.require_entry(given.source)
        if await files.is_reachable(given.target) and await files.has_entry(given.target):
            raise _in_the_way(files.shown(given.target))

    async def run(self, given: MoveArguments, call: ToolCallHandle, work: ToolContext) -> Outcome:
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
        await files.on_moved(source, target)
        text = f"Moved {files.shown(source)} to {files.shown(target)}."
        await call.add_content(text)
        return Outcome((text,))


def _in_the_way(target: str) -> ToolFailed:
    return ToolFailed(f"{target} is there already. Nothing was moved.")


class DeleteArguments(Struct, frozen=True):
    """What to delete."""

    path: Annotated[str, Meta(description="The file, or an empty directory")]


class Delete(Tool[DeleteArguments]):
    """Deletes a file."""

    name = "delete"
    kind = "delete"
    description = "Delete a file, a link (not what it leads to), or an empty directory."
    arguments_type = DeleteArguments

    def title(self, given: DeleteArguments, work: ToolContext) -> str:
        """Name the path."""
        return f"Delete {work.files.shown(given.path)}"

    def locations(self, given: DeleteArguments, work: ToolContext) -> Sequence[ToolCallLocation]:
        """Point at it."""
        return (ToolCallLocation(work.files.absolute(given.path)),)

    def access(self, given: DeleteArguments, work: ToolContext) -> Access:
        """Deletes the path."""
        return Access("delete", (work.files.absolute(given.path),), itself=True)

    async def preview(
        self, given: DeleteArguments, call: ToolCallHandle, work: ToolContext
    ) -> None:
        """Show what would be gone, of a text that may be looked at."""
        await work.files.require_entry(given.path)
        path = work.files.absolute(given.path)
        if await work.files.is_reachable(path) and await asyncio.to_thread(_is_file, path):
            try:
                loaded = await work.files.load(path)
            except ToolFailed:
                return  # no text
            await call.add_diff(path, loaded.raw, None)

    async def run(self, given: DeleteArguments, call: ToolCallHandle, work: ToolContext) -> Outcome:
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
        await call.add_content(text)
        return Outcome((text,))


async def _check_saved(path: str, work: ToolContext) -> None:
    """Raise `ToolFailed` when changes that are in the editor alone would be lost."""
    if await asyncio.to_thread(_is_file, path):
        await work.files.check_saved(path)


def _is_file(path: str) -> bool:
    """Tell whether it is a file and no link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
