"""The tool `grep`: searches files with ripgrep, or with `search` if it is not installed.

The output of `rg --json` is parsed in pieces.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from accord import ToolCallLocation
from accord.local.command import LocalCommand
from accord_coder.permissions.sensitive_files import is_secret
from accord_coder.search import MAX_FILE_BYTES, Search, matcher
from accord_coder.tool_results import Access, Outcome, ToolFailed, count_noun, fenced, one_line
from accord_coder.tools import Tool, environment_without_keys

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.decision import ToolContext

_MAX_CHARACTERS = 500  # of a line


class Place(Struct, frozen=True):
    """A matching line; `path` is the one in the output."""

    path: str
    line: int


class _Text(Struct, frozen=True):
    text: str | None = None
    bytes: str | None = None  # base64, if it is not UTF-8

    def decoded(self, errors: str) -> str:
        if self.text is not None:
            return self.text
        return base64.b64decode(self.bytes or "").decode("utf-8", errors)


class _Data(Struct, frozen=True):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    binary_offset: int | None = None


class _Line(Struct, frozen=True):
    type: str
    data: _Data


class Matches:
    """Collects matching lines up to a limit, then calls `on_full` once.

    `wanted(path)` is called once for each file with matches and returns whether to include it.
    Output that is not JSON is the error text of the search.
    """

    def __init__(
        self,
        limit: int,
        *,
        shown: Callable[[str], str],
        wanted: Callable[[str], bool],
        on_full: Callable[[], None],
    ) -> None:
        self.lines: list[str] = []
        self.places: list[Place] = []
        self.error = ""
        self.is_full = False
        self._limit = limit
        self._shown = shown
        self._wanted = wanted
        self._on_full = on_full
        self._rest = b""
        # Of the current file; None if it is excluded.
        self._file: list[tuple[int, str, bool]] | None = None
        self._found = 0  # its matching lines
        self._decode = msgspec.json.Decoder(_Line).decode

    def feed(self, data: bytes) -> None:
        """Process a piece of output."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self.is_full:
                self._rest = b""
                return
            self._read_record(line)

    def _read_record(self, line: bytes) -> None:
        try:
            message = self._decode(line)
        except (msgspec.DecodeError, msgspec.ValidationError):
            self.error += line.decode("utf-8", "replace") + "\n"
            return
        data = message.data
        path = "" if data.path is None else data.path.decoded("surrogateescape")
        match message.type:
            case "begin":
                self._file = [] if self._wanted(path) else None
                self._found = 0
            case "match" | "context" if data.lines is not None and data.line_number is not None:
                text = data.lines.decoded("replace")
                self._add(path, data.line_number, text, is_match=message.type == "match")
            case "end" if data.binary_offset is None:
                self._end(path)
            case _:
                pass

    def _add(self, path: str, number: int, line: str, *, is_match: bool) -> None:
        if self._file is None:
            return
        text = line.removesuffix("\n").removesuffix("\r")
        if len(text) > _MAX_CHARACTERS:
            text = f"{text[:_MAX_CHARACTERS]}…"
        self._file.append((number, text, is_match))
        self._found += is_match
        if len(self.places) + self._found > self._limit:
            self._end(path)

    def _end(self, path: str) -> None:
        """Add the matches of a file."""
        found, self._file = self._file or [], None
        name = self._shown(path)
        before: int | None = None
        with_context = any(not is_match for _, _, is_match in found)
        for number, text, is_match in found:
            if is_match and len(self.places) == self._limit:
                self.is_full = True
                self._on_full()
                return
            if with_context and self.lines and before != number - 1:
                self.lines.append("--")
            before = number
            if is_match:
                self.places.append(Place(path, number))
                self.lines.append(f"{name}:{number}: {text}")
            else:
                self.lines.append(f"{name}-{number}- {text}")


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
            "accord_coder.search",
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
