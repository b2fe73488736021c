"""The tools that only read: `read` (text by lines, and images), `list`, and `glob`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import Meta, Struct

from accord import ImageContent, ToolCallLocation
from accord_coder.files import MAX_BYTES, in_thread
from accord_coder.search import Entry, matcher, walk
from accord_coder.tool_results import MAX_CHARACTERS, Access, Outcome, ToolFailed, fenced
from accord_coder.tools import Tool

if TYPE_CHECKING:
    from accord.agent import ToolCallHandle
    from accord_coder.permissions.decision import ToolContext

_MAX_IMAGE_BYTES = 5 * 1024 * 1024
_PIECE_BYTES = 256 * 1024  # read at once of a very long line


class ReadArguments(Struct, frozen=True):
    """The arguments of `read`."""

    path: Annotated[str, Meta(description="The file, absolute or below the working directory")]
    line: Annotated[int, Meta(ge=1, description="The first line to read")] = 1
    limit: Annotated[int, Meta(ge=1, description="The number of lines to read")] = 2000


class Read(Tool[ReadArguments]):
    """Reads a file."""

    name = "read"
    kind = "read"
    description = (
        "Read a text file or an image (PNG, JPEG, GIF, WebP). The text is unchanged; a last "
        "line `[lines A-B of N]` means that there is more. Unsaved changes in the user's editor "
        "count."
    )
    arguments_type = ReadArguments
    parallel = True

    def title(self, args: ReadArguments, context: ToolContext) -> str:
        """Return a title with the path."""
        return f"Read {context.files.shown(args.path)}"

    def locations(self, args: ReadArguments, context: ToolContext) -> Sequence[ToolCallLocation]:
        """Return the file and the first line."""
        return (ToolCallLocation(context.files.absolute(args.path), args.line),)

    def access(self, args: ReadArguments, context: ToolContext) -> Access:
        """Return a read of the file."""
        return Access("read", (context.files.absolute(args.path),))

    async def preview(
        self, args: ReadArguments, call: ToolCallHandle, context: ToolContext
    ) -> None:
        """Fail before the user is asked if the file does not exist."""
        files = context.files
        if await files.is_reachable(args.path) and not await files.has_entry(args.path):
            await files.load(args.path)  # the editor can have it

    async def run(self, args: ReadArguments, call: ToolCallHandle, context: ToolContext) -> Outcome:
        """Return the text, or the image."""
        files, path = context.files, args.path
        head = await files.head(path)
        if head is not None and (mime_type := _image_type(head)) is not None:
            return await _image(mime_type, args, call, context)
        size = await files.size(path)
        if head is not None and (b"\0" in head or head.startswith(b"%PDF-")):
            raise ToolFailed(f"{path} is a binary file of {size} bytes: it cannot be read as text.")
        if size is not None and size > MAX_BYTES:
            part = await in_thread(lambda stop: _part_of_large(args, context, stop))
        else:
            loaded = await files.load(path)
            await files.remember_read(loaded)
            part = _LineRange(args, path)
            for line in _lines(loaded.text):
                part.add(line)
        text = part.result()
        await call.add_content(fenced(text, PurePath(path).suffix.removeprefix(".")))
        return Outcome((text,))


class _LineRange:
    """The requested lines, up to the limit."""

    def __init__(self, args: ReadArguments, path: str) -> None:
        self._given = args
        self._path = path
        self._kept: list[str] = []
        self._left = MAX_CHARACTERS
        self._is_full = False
        self._is_line_cut = False
        self.total = 0

    def add(self, line: str) -> None:
        """Add the next line of the file."""
        self.total += 1
        if self._is_full or not self.wants(self.total):
            return
        if len(line) > self._left:
            self._is_full = True
            if not self._kept:  # one line is longer than the limit
                self._kept.append(line[: self._left])
                self._is_line_cut = True
            return
        self._kept.append(line)
        self._left -= len(line)

    def wants(self, number: int) -> bool:
        """Return whether a line is requested."""
        return self._given.line <= number < self._given.line + self._given.limit

    def result(self) -> str:
        """Return the text, with a last line about what is missing."""
        first = self._given.line
        if not self._kept:
            if first == 1:
                return ""
            count = "1 line" if self.total == 1 else f"{self.total} lines"
            raise ToolFailed(f"{self._path} has {count}; line {first} does not exist.")
        text = "".join(self._kept)
        last = first + len(self._kept) - 1
        if first == 1 and last == self.total and not self._is_line_cut:
            return text
        if self._is_line_cut:
            text = f"{text}\n[line {first} is cut]"
        end = "" if text.endswith("\n") else "\n"
        return f"{text}{end}[lines {first}-{last} of {self.total}]"


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _part_of_large(
    args: ReadArguments, context: ToolContext, stop: Callable[[], bool]
) -> _LineRange:
    """Read from a file that is too large for memory; it cannot be edited."""
    part = _LineRange(args, args.path)
    fd = context.files.roots.open(context.files.absolute(args.path))
    with os.fdopen(fd, "rb") as file:
        goes_on = False
        while not stop() and (piece := file.readline(_PIECE_BYTES)):
            if not goes_on:
                wanted = part.wants(part.total + 1)
                part.add(piece.decode("utf-8", "replace") if wanted else "")
            goes_on = not piece.endswith(b"\n")
    return part


async def _image(
    mime_type: str, args: ReadArguments, call: ToolCallHandle, context: ToolContext
) -> Outcome:
    data = await context.files.bytes(args.path, _MAX_IMAGE_BYTES + 1)
    if data is None or len(data) > _MAX_IMAGE_BYTES:
        raise ToolFailed(f"The image {args.path} is larger than {_MAX_IMAGE_BYTES // 2**20} MiB.")
    image = ImageContent(data, mime_type)
    await call.add_content(image)
    said = f"{context.files.shown(args.path)} is this image ({mime_type}, {len(data)} bytes):"
    return Outcome((said, image))


def _image_type(head: bytes) -> str | None:
    """Return the MIME type of a supported image, from the beginning of the file."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return None


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
