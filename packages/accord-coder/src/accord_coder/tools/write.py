"""The tool `write`: creates files, or replaces files that were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord import ToolCallLocation
from accord_coder.files import LoadedText
from accord_coder.tool_results import Access, Outcome, count_noun
from accord_coder.tools.base import Tool

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.context import ToolContext


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
            await _changed(args, call, context, previews=True)

    async def run(
        self, args: WriteArguments, call: ToolCallHandle, context: ToolContext
    ) -> Outcome:
        """Write the text."""
        old = await _changed(args, call, context, previews=False)
        await context.files.store(args.path, old, args.text)
        lines = args.text.count("\n") + (not args.text.endswith("\n") and bool(args.text))
        name = context.files.shown(args.path)
        verb = "Created" if old is None else "Wrote"
        return Outcome((f"{verb} {name}: {count_noun(lines, 'line', 'lines')}.",))


async def _changed(
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
