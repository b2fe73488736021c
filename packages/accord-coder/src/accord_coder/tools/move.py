"""The tools `move` and `delete`."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord import ToolCallLocation
from accord_coder.tool_results import Access, Outcome, ToolFailed
from accord_coder.tools.base import Tool

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.context import ToolContext


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

    def locations(self, args: MoveArguments, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Return both paths."""
        files = context.files
        return (
            ToolCallLocation(files.absolute(args.source)),
            ToolCallLocation(files.absolute(args.target)),
        )

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

    def locations(self, args: DeleteArguments, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Return the path."""
        return (ToolCallLocation(context.files.absolute(args.path)),)

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
