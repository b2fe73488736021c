"""The tool `grep`: searches files with ripgrep, or with `searcher` if it is not installed."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from accord import ToolCallLocation
from accord.local.command import LocalCommand
from accord_coder.permissions.sensitive_files import is_secret
from accord_coder.tool_results import Access, Outcome, ToolFailed, count_noun, fenced, one_line
from accord_coder.tools.base import Tool
from accord_coder.tools.environment import environment_without_keys
from accord_coder.tools.grep_matches import Matches
from accord_coder.tools.searcher import MAX_FILE_BYTES, Search
from accord_coder.tools.walk import matcher

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.context import ToolContext


_MAX_SECONDS = 60.0
_MAX_LOCATIONS = 50
_BAD_PATTERN = 2  # exit status


class GrepArguments(Struct, frozen=True):
    """The arguments of `grep`."""

    pattern: Annotated[
        str, Meta(min_length=1, description="A regular expression, matched within lines")
    ]
    path: Annotated[str, Meta(description="The file or directory to search")] = "."
    glob: Annotated[str | None, Meta(description="Only files that match, for example *.py")] = None
    ignore_case: Annotated[bool, Meta(description="Ignore case")] = False
    context: Annotated[int, Meta(ge=0, le=20, description="Lines to show around matches")] = 0
    limit: Annotated[int, Meta(ge=1, le=2000, description="Maximum number of matches")] = 200


class Grep(Tool[GrepArguments]):
    """Searches files for a regular expression."""

    name = "grep"
    kind = "search"
    description = (
        "Search files for a regular expression. Returns `path:line: text` lines, with `context`"
        " also `path-line- text`. Excludes binary files, .git and what .gitignore ignores."
    )
    arguments_type = GrepArguments
    parallel = True
    cancellable = True

    def title(self, args: GrepArguments, context: ToolContext) -> str:
        """Return a title with the expression and the path."""
        where = context.files.shown(args.path)
        if args.glob is not None:
            where = args.glob if where == "." else f"{where} ({args.glob})"
        return f"Search for {one_line(args.pattern)}" + ("" if where == "." else f" in {where}")

    def locations(self, args: GrepArguments, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Return the searched path; the matches are added at the end."""
        return (ToolCallLocation(context.files.absolute(args.path)),)

    def access(self, args: GrepArguments, context: ToolContext) -> Access:
        """Return a read of the path."""
        return Access("read", (context.files.absolute(args.path),))

    async def run(self, args: GrepArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Return the lines that match."""
        base = context.files.absolute(args.path)
        real = await asyncio.to_thread(context.files.roots.resolve, base)
        if not await asyncio.to_thread(os.path.exists, real):
            raise ToolFailed(f"{args.path} does not exist.")
        notes: list[str] = []
        matches = await _search(args, base, real, context, notes)
        text = "\n".join([*matches.lines, *notes]) if matches.lines or notes else "[no matches]"
        if matches.places:
            places = [
                ToolCallLocation(base + place.path.removeprefix(real), place.line)
                for place in matches.places[:_MAX_LOCATIONS]
                if _can_be_named(place.path)
            ]
            await call.update(locations=places)
        await call.add_content(fenced(text))
        return Outcome((text,), {"matches": len(matches.places)})


async def _search(
    args: GrepArguments, base: str, real: str, context: ToolContext, notes: list[str]
) -> Matches:
    """Run the search until it ends or reaches the limit; add notes about what is left out."""
    enough = asyncio.Event()
    fits = None if args.glob is None else matcher(args.glob)
    below = real.rstrip(os.sep) + os.sep
    secrets: list[str] = []

    def wanted(path: str) -> bool:
        if path == real:
            return True  # permission was granted for exactly this file
        if fits is not None and not fits(path.removeprefix(below).replace(os.sep, "/")):
            return False
        if is_secret(path):
            secrets.append(shown(path))
            return False
        return True

    def shown(path: str) -> str:
        return context.files.shown(base + path.removeprefix(real))

    matches = Matches(args.limit, shown=shown, wanted=wanted, on_full=enough.set)
    command = LocalCommand(
        _argv(args, real),
        cwd=context.session.cwd,
        env=environment_without_keys(),
        output_bytes=0,
        on_output=matches.feed,
    )
    waiting = {asyncio.ensure_future(command.wait()), asyncio.ensure_future(enough.wait())}
    try:
        done, _ = await asyncio.wait(
            waiting, timeout=_MAX_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        for task in waiting:
            task.cancel()
        await command.aclose()
    if enough.is_set():
        notes.append(f"[the first {count_noun(args.limit, 'match', 'matches')}; there are more]")
    elif not done:
        notes.append(f"[stopped after {_MAX_SECONDS:.0f} s]")
    elif command.status()[0] == _BAD_PATTERN and matches.error:
        raise ToolFailed(f"The pattern is not valid: {matches.error.strip()}")
    if secrets:
        notes.append(f"[not shown, as they may hold secrets: {', '.join(secrets[:10])}]")
    return matches


def _can_be_named(path: str) -> bool:
    return all(not "\ud800" <= character <= "\udfff" for character in path)


def _argv(args: GrepArguments, real: str) -> list[str]:
    program = shutil.which("rg")
    if program is None:
        search = Search(
            pattern=args.pattern,
            path=real,
            glob=args.glob,
            ignore_case=args.ignore_case,
            context=args.context,
        )
        # -P: do not import modules from the working directory.
        return [
            sys.executable,
            "-P",
            "-m",
            "accord_coder.tools.searcher",
            msgspec.json.encode(search).decode(),
        ]
    argv = [
        program,
        "--json",
        "--no-config",
        "--no-messages",
        "--hidden",
        "--glob=!.git",
        "--no-ignore-dot",
        "--no-ignore-exclude",
        "--no-ignore-global",
        "--no-require-git",
        "--sort=path",
        "--crlf",
        f"--max-filesize={MAX_FILE_BYTES}",
        f"--context={args.context}",
        f"--regexp={args.pattern}",
    ]
    if args.ignore_case:
        argv.append("--ignore-case")
    return [*argv, "--", real]
