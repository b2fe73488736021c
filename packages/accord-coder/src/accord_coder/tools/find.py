"""The tools `list` and `glob`: list directories, and find files by patterns."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import Meta, Struct

from accord import ToolCallLocation
from accord_coder.files import in_thread
from accord_coder.tool_results import Access, Outcome, ToolFailed, fenced
from accord_coder.tools.base import Tool
from accord_coder.tools.walk import Entry, matcher, walk

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.context import ToolContext


_MAX_PATHS = 1000  # paths in a result
_MAX_SECONDS = 30.0  # of a walk


class ListArguments(Struct, frozen=True):
    """The arguments of `list`."""

    path: Annotated[str, Meta(description="The directory")] = "."
    depth: Annotated[int, Meta(ge=1, le=20, description="How many levels to show")] = 1


class List(Tool[ListArguments]):
    """Lists a directory."""

    name = "list"
    kind = "search"
    description = (
        "List a directory, one path per line; directories end in a slash. Deeper levels exclude "
        ".git and what .gitignore ignores."
    )
    arguments_type = ListArguments
    parallel = True

    def title(self, args: ListArguments, context: ToolContext) -> str:
        """Return a title with the directory."""
        return f"List {context.files.shown(args.path)}"

    def locations(self, args: ListArguments, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Return the directory."""
        return (ToolCallLocation(context.files.absolute(args.path)),)

    def access(self, args: ListArguments, context: ToolContext) -> Access:
        """Return a read of the directory."""
        return Access("read", (context.files.absolute(args.path),))

    async def run(self, args: ListArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Return the paths."""
        top = await _folder(args.path, context)

        def listed(stop: Callable[[], bool]) -> _FoundPaths:
            limit = _TimeLimit(stop)
            return _collect(walk(top, stop=limit.reached, depth=args.depth), args, context, limit)

        return await _outcome(await in_thread(listed), "The directory is empty.", call)


class GlobArguments(Struct, frozen=True):
    """The arguments of `glob`."""

    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            description="**/*.py or src/*.{ts,tsx}, for example; without a slash it matches names",
        ),
    ]
    path: Annotated[str, Meta(description="The directory to search")] = "."


class Glob(Tool[GlobArguments]):
    """Finds files."""

    name = "glob"
    kind = "search"
    description = (
        "Find files and directories by a pattern, one path per line; directories end in a slash. "
        "Files that .gitignore ignores are excluded."
    )
    arguments_type = GlobArguments
    parallel = True

    def title(self, args: GlobArguments, context: ToolContext) -> str:
        """Return a title with the pattern, and the directory unless it is the session's."""
        where = context.files.shown(args.path)
        return f"Find {args.pattern}" + ("" if where == "." else f" in {where}")

    def locations(self, args: GlobArguments, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Return the directory."""
        return (ToolCallLocation(context.files.absolute(args.path)),)

    def access(self, args: GlobArguments, context: ToolContext) -> Access:
        """Return a read of the directory."""
        return Access("read", (context.files.absolute(args.path),))

    async def run(self, args: GlobArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Return the paths."""
        top = await _folder(args.path, context)
        fits = matcher(args.pattern.removesuffix("/"))
        only_folders = args.pattern.endswith("/")

        def found(stop: Callable[[], bool]) -> _FoundPaths:
            limit = _TimeLimit(stop)
            entries = (
                entry
                for entry in walk(top, stop=limit.reached)
                if not entry.is_ignored
                and (entry.is_folder or not only_folders)
                and fits(entry.path)
            )
            return _collect(entries, args, context, limit)

        return await _outcome(await in_thread(found), "No path matches.", call)


class _TimeLimit:
    """Stops a walk when the call is cancelled or takes too long."""

    def __init__(self, stop: Callable[[], bool]) -> None:
        self._stop = stop
        self._end = time.monotonic() + _MAX_SECONDS
        self.was_reached = False

    def reached(self) -> bool:
        """Return whether to stop."""
        self.was_reached = self.was_reached or time.monotonic() > self._end
        return self.was_reached or self._stop()


class _FoundPaths(NamedTuple):
    paths: list[str]  # the first `_MAX_PATHS`
    total: int
    is_complete: bool


async def _folder(path: str, context: ToolContext) -> str:
    """Return the real path of a directory; raise `ToolFailed`."""
    real = await asyncio.to_thread(context.files.roots.resolve, context.files.absolute(path))
    if not await asyncio.to_thread(os.path.isdir, real):
        there = await asyncio.to_thread(os.path.exists, real)
        raise ToolFailed(f"{path} is a file." if there else f"The directory {path} does not exist.")
    return real


def _collect(
    entries: Iterable[Entry],
    args: ListArguments | GlobArguments,
    context: ToolContext,
    limit: _TimeLimit,
) -> _FoundPaths:
    """Return the first paths as models see them, and the total number."""
    kept: list[str] = []
    count = 0
    base = context.files.absolute(args.path)
    for entry in entries:
        count += 1
        if count <= _MAX_PATHS:
            absolute = os.path.join(base, entry.path)  # noqa: PTH118  # text, not a file
            kept.append(context.files.shown(absolute) + ("/" if entry.is_folder else ""))
    return _FoundPaths(kept, count, not limit.was_reached)


async def _outcome(found: _FoundPaths, nothing: str, call: ToolCallHandle) -> Outcome:
    stopped = f"[stopped after {_MAX_SECONDS:.0f} s: not all directories were searched]"
    if not found.paths:
        await call.add_content(nothing if found.is_complete else stopped)
        return Outcome((f"[{nothing}]" if found.is_complete else stopped,), {"count": 0})
    text = "\n".join(found.paths)
    if found.total > len(found.paths):
        text = f"{text}\n[{len(found.paths)} of {found.total} paths]"
    if not found.is_complete:
        text = f"{text}\n{stopped}"
    await call.add_content(fenced(text))
    return Outcome((text,), {"count": found.total})
