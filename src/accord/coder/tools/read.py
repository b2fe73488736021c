"""Reads files: text by lines, images whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from accord import Location
from accord.coder.tools.base import Access, Outcome, Tool

if TYPE_CHECKING:
    from accord.agent.tool import ToolCall
    from accord.coder.work import Work

__all__ = ("Read",)


class Reading(Struct, frozen=True):
    """What to read."""

    path: Annotated[str, Meta(description="The file, absolute or below the working directory")]
    line: Annotated[int, Meta(ge=1, description="The first line to read")] = 1
    limit: Annotated[int, Meta(ge=1, description="How many lines to read")] = 2000


class Read(Tool[Reading]):
    """See the module."""

    name = "read"
    kind = "read"
    description = "Read a text file or an image."
    takes = Reading
    parallel = True

    def title(self, given: Reading, work: Work) -> str:
        """Name the file."""
        return f"Read {given.path}"

    def locations(self, given: Reading, work: Work) -> Sequence[Location]:
        """Point at the first line read."""
        return (Location(str(Path(work.session.cwd, given.path)), given.line),)

    def access(self, given: Reading, work: Work) -> Access:
        """Reads the file."""
        return Access("read", (str(Path(work.session.cwd, given.path)),))

    async def run(self, given: Reading, call: ToolCall, work: Work) -> Outcome:
        """Return the text."""
        text = await work.session.files.read(given.path, line=given.line, limit=given.limit)
        await call.content(text)
        return Outcome((text,))
