"""Writes whole files: new ones, or in place of ones that were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord import ToolCallLocation
from accord_coder.files import LoadedText
from accord_coder.tools.base import Tool
from accord_coder.tools.formatting import count_noun
from accord_coder.tools.result import Access, Outcome

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.tools.context import ToolContext

__all__ = ("Write", "WriteArguments")


class WriteArguments(Struct, frozen=True):
    """What to write."""

    path: Annotated[str, Meta(description="The file, absolute or below the working directory")]
    text: Annotated[str, Meta(description="All of its text")]


class Write(Tool[WriteArguments]):
    """See the module."""

    name = "write"
    kind = "edit"
    description = (
        "Create a text file, with the directories it is in, or replace all of one that you have "
        "read. To change a part of a file use edit."
    )
    arguments_type = WriteArguments

    def title(self, given: WriteArguments, work: ToolContext) -> str:
        """Name the file."""
        return f"Write {work.files.shown(given.path)}"

    def locations(self, given: WriteArguments, work: ToolContext) -> Sequence[ToolCallLocation]:
        """Point at the file."""
        return (ToolCallLocation(work.files.absolute(given.path), 1),)

    def access(self, given: WriteArguments, work: ToolContext) -> Access:
        """Changes the file."""
        return Access("edit", (work.files.absolute(given.path),))

    async def preview(self, given: WriteArguments, call: ToolCallHandle, work: ToolContext) -> None:
        """Show the change, of a file that may be looked at."""
        if await work.files.is_reachable(given.path):
            await _changed(given, call, work, previews=True)

    async def run(self, given: WriteArguments, call: ToolCallHandle, work: ToolContext) -> Outcome:
        """Write the text."""
        old = await _changed(given, call, work, previews=False)
        await work.files.store(given.path, old, given.text)
        lines = given.text.count("\n") + (not given.text.endswith("\n") and bool(given.text))
        name = work.files.shown(given.path)
        verb = "Created" if old is None else "Wrote"
        return Outcome((f"{verb} {name}: {count_noun(lines, 'line', 'lines')}.",))


async def _changed(
    given: WriteArguments, call: ToolCallHandle, work: ToolContext, *, previews: bool
) -> LoadedText | None:
    """Show the change; return the text that exists, which the model knows."""
    old = await work.files.load_for_change(given.path, previews=previews)
    if old is None:
        await call.add_diff(work.files.absolute(given.path), None, given.text)
        return None
    await work.files.check(old)
    await call.add_diff(work.files.absolute(given.path), old.raw, old.raw_of(given.text))
    return old
