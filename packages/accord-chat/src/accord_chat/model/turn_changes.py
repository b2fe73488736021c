"""The changes of files during a turn of which the agent shows no diff.

`TurnChanges` reads the folder before and after each turn (`FolderState`), and adds what has changed
to the conversation, unless the agent has reported it: in a diff (of an update or of a permission
request), as a location, or as an input of an edit, also if that was replaced later.
`FolderFiles` lists the files that git does not ignore, which a prompt can mention, too.
"""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from accord.client.events import Event, PermissionDecided, ToolCall
from accord.client.v2 import SharedSequence
from accord.local.files import is_within, real_path
from accord.types.tool_calls import Diff, ToolContent
from accord_chat.model.conversation import Timeline
from accord_terminal.toolkit.text import relative_path

_LOOK_S = 2.0  # for one look at the folder; a prompt waits for it
_MAX_NAMES = 20
_MAX_INPUTS = 1000  # of one tool call that are read as paths
_UNREPORTED = "Not reported by the agent"
_CHANGED = "Changed by the agent"
_AFTER_REJECTION = "Changed although you rejected it"
# Calls of these kinds do not report a change of a file that they name; kinds that change files.
_READS = frozenset(("read", "search", "fetch", "think", "switch_mode"))
_WRITES = frozenset(("edit", "delete", "move"))


class TurnChanges:
    """Compares the folder before and after each turn, if it can be read in two seconds."""

    def __init__(self, files: FolderFiles, timeline: Timeline) -> None:
        self.is_wanted = True  # the files of the agent are here
        self._files = files
        self._timeline = timeline
        self._before: FolderState | None = None
        self._is_too_slow = False
        self._count = 0
        self._named: dict[str, set[str]] = {}  # the paths that a call has named, by its id
        self._noted: dict[str, ToolCall] = {}  # each call as it was last noted
        self._with_diff: set[str] = set()  # the calls whose content then had a diff
        self._failed: set[str] = set()  # calls, as those that the user has rejected
        self._rejected: set[str] = set()

    def note(self, event: Event) -> None:
        """Note the files that a tool call names: its content can be replaced before the end."""
        match event:
            case ToolCall(id=call_id):
                if event.status == "failed":
                    self._failed.add(call_id)
                else:
                    self._failed.discard(call_id)
                self._note_paths(event, self._noted.get(call_id))
                self._noted[call_id] = event
            case PermissionDecided(request=request) if request.tool_call is not None:
                if event.allowed:
                    self._rejected.discard(request.tool_call.id)
                elif event.option is not None:
                    self._rejected.add(request.tool_call.id)
            case _:
                pass

    def _note_paths(self, call: ToolCall, earlier: ToolCall | None) -> None:
        """Note the paths of a call; of content that was appended, look only at the new parts.

        An agent can send a content of thousands of parts one by one.
        """
        start = 0 if earlier is None else _unchanged_parts(call.content, earlier.content)
        diffs = [part for part in call.content[start:] if isinstance(part, Diff)]
        if diffs:
            self._with_diff.add(call.id)
        elif start == 0:
            self._with_diff.discard(call.id)
        paths = {path for diff in diffs for path in (diff.path, *diff.others)}
        if earlier is None or not _names_same_places(call, earlier):
            paths.update(_places(call))
        if paths:
            self._named.setdefault(call.id, set()).update(paths)

    def names_file(self, call: ToolCall) -> bool:
        """Return whether a call says where the agent works; it is the one that was noted last."""
        return bool(call.locations) or call.id in self._with_diff

    async def begin(self) -> None:
        """Note how the files are; what calls have named and shown before does not count."""
        self._noted.clear()
        self._named.clear()
        self._before = await self._look()

    async def end(self) -> None:
        """Add the changes since `begin` to the conversation, as tool calls with diffs."""
        before = self._before
        after = None if before is None else await self._look()
        if before is None or after is None:
            return
        self._before = after
        folder = os.fspath(self._files.folder)
        found = changes_between(before, after, folder, _real_paths(folder, self._shown()))
        if found.diffs or found.others:
            self._show(found, folder)

    def _show(self, found: UnreportedChanges, folder: str) -> None:
        why = self._reasons(folder)
        diffs: dict[str, list[Diff]] = {}
        for diff in found.diffs:
            diffs.setdefault(why.get(os.path.realpath(diff.path), _UNREPORTED), []).append(diff)
        others: dict[str, list[str]] = {}
        for path in found.others:
            absolute = os.path.realpath(os.path.join(folder, path))  # noqa: PTH118
            others.setdefault(why.get(absolute, _UNREPORTED), []).append(path)
        for title, changed in diffs.items():
            self._add_call(title, changed, folder)
        for title, paths in others.items():
            text = f"{title}, and not shown (not text, too large, or too many)"
            self._timeline.remark(f"{text}: {_names(paths)}", "quiet")

    def _reasons(self, folder: str) -> dict[str, str]:
        """Return what to say of the changes of files that a call has named, by their real paths."""
        named: dict[str, set[str]] = {_AFTER_REJECTION: set(), _CHANGED: set()}
        for call_id, paths in self._named.items():
            if call_id in self._rejected:
                named[_AFTER_REJECTION] |= paths
            elif call_id not in self._failed:
                named[_CHANGED] |= paths  # another call that was not rejected counts
        return {
            path: title for title, paths in named.items() for path in _real_paths(folder, paths)
        }

    def _add_call(self, title: str, diffs: Sequence[Diff], folder: str) -> None:
        self._count += 1
        names = _names([relative_path(diff.path, folder) for diff in diffs])
        call = ToolCall(
            id=f"accord-unreported-{self._count}",
            title=f"{title}: {names}",
            kind="edit",
            status="completed",
            content=tuple(diffs),
        )
        self._timeline.add_call(call)

    def _shown(self) -> Iterator[str]:
        """Yield the paths of the diffs of this turn that are shown as made, or as to be made."""
        self._timeline.sync()
        for entry in self._timeline.entries:
            call = entry.content
            if (
                isinstance(call, ToolCall)
                and call.id in self._noted
                and call.status not in ("failed", "cancelled")
                and call.id not in self._rejected
            ):
                for part in call.content:
                    if isinstance(part, Diff):
                        yield from (part.path, *part.others)

    async def _look(self) -> FolderState | None:
        if self._is_too_slow or not self.is_wanted:
            return None
        try:
            async with asyncio.timeout(_LOOK_S):
                return await asyncio.to_thread(state_of, self._files, self._before)
        except TimeoutError:
            self._is_too_slow = True
            self._timeline.remark(
                f"The files were not read within {_LOOK_S:g} s: unreported changes are not shown",
                "quiet",
            )
            return None


def _unchanged_parts(content: Sequence[ToolContent], earlier: Sequence[ToolContent]) -> int:
    """Return how many parts at the beginning are the earlier ones; 0 if they were replaced.

    A content that was extended is a `SharedSequence`: it has the earlier parts, not copies.
    """
    size = len(earlier)
    if content is earlier:
        return size
    if not isinstance(content, SharedSequence) or not 0 < size <= len(content):
        return 0
    return size if content[size - 1] is earlier[size - 1] else 0


def _names_same_places(call: ToolCall, earlier: ToolCall) -> bool:
    return (
        call.kind == earlier.kind
        and call.locations is earlier.locations
        and call.raw_input is earlier.raw_input
    )


def _places(call: ToolCall) -> Iterator[str]:
    """Yield the paths that a tool call names as those of its change, in addition to its diffs."""
    if call.kind not in _READS:
        yield from (place.path for place in call.locations)
    if call.kind in _WRITES:
        yield from _short_texts(call.raw_input)


def _short_texts(value: object) -> Iterator[str]:
    """Yield the texts in an input that can be paths: agents name the key as they like."""
    waiting: list[object] = [value]
    for _ in range(_MAX_INPUTS):
        if not waiting:
            return
        value = waiting.pop()
        match value:
            case str() as text if 0 < len(text) <= 4096 and "\n" not in text:
                yield text
            case dict():
                waiting += cast("Mapping[str, Any]", value).values()
            case list():
                waiting += cast("list[Any]", value)
            case _:
                pass


def _real_paths(folder: str, paths: Iterable[str]) -> set[str]:
    """Return the real paths: agents report them, too, where a folder is reached by a link."""
    found: set[str] = set()
    for path in set(paths):
        try:
            found.add(os.path.realpath(os.path.join(folder, path)))  # noqa: PTH118
        except (OSError, ValueError):  # not a path, for example with a null character
            continue
    return found


def _names(paths: Sequence[str]) -> str:
    names = ", ".join(paths[:_MAX_NAMES])
    more = len(paths) - _MAX_NAMES
    return f"{names} and {more} more" if more > 0 else names


_FILE_BYTES = 512 * 1024
_TOTAL_BYTES = 32 * 1024 * 1024  # of all files of a folder; compressed in memory
_MAX_DIFFS = 50
# Of a link nothing is read, and a pipe must not block.
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class _File(Struct, frozen=True):
    stamp: tuple[int, int, int, int]
    size: int = 0  # of the text
    packed: bytes | None = None  # the text; None: not UTF-8, or too large

    def text(self) -> str | None:
        return None if self.packed is None else zlib.decompress(self.packed).decode("utf-8")


class FolderState(Struct, frozen=True):
    """The files of a folder at one time, by their relative path."""

    files: Mapping[str, _File]


class UnreportedChanges(Struct, frozen=True):
    """Changed files: those whose old and new text is known, and the paths of others."""

    diffs: tuple[Diff, ...] = ()
    others: tuple[str, ...] = ()


def state_of(folder: FolderFiles, earlier: FolderState | None = None) -> FolderState:
    """Read the files of a folder that git does not ignore; those of `earlier` only if changed.

    Hidden folders are left out: agents keep what is their own in them.
    This reads the disk: at most 32 MB, and no file of more than 512 KB.
    """
    known: Mapping[str, _File] = {} if earlier is None else earlier.files
    found: dict[str, _File] = {}
    left = _TOTAL_BYTES
    for path in folder.refresh():
        if "/." in f"/{path}".rpartition("/")[0]:
            continue
        file = _read(os.fspath(folder.folder / path), known.get(path), left)
        if file is not None:
            found[path] = file
            left -= file.size
    return FolderState(found)


def changes_between(
    before: FolderState, after: FolderState, folder: str, reported: Collection[str]
) -> UnreportedChanges:
    """Return what has changed, except for the real paths in `reported`."""
    diffs: list[Diff] = []
    others: list[str] = []
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        absolute = os.path.normpath(os.path.join(folder, path))  # noqa: PTH118  # as in `Roots`
        if old and new and old.stamp == new.stamp:
            continue
        if os.path.realpath(absolute) in reported:
            continue
        if new is None and os.path.lexists(absolute):
            continue  # git ignores it now
        old_text, new_text = (None if file is None else file.text() for file in (old, new))
        is_unknown = (old and old_text is None) or (new and new_text is None)
        if is_unknown or len(diffs) == _MAX_DIFFS:
            others.append(path)
        elif old_text != new_text:
            diffs.append(Diff(absolute, old_text, new_text))
    return UnreportedChanges(tuple(diffs), tuple(others))


def _read(path: str, known: _File | None, left: int) -> _File | None:
    """Return a file, `known` if it has not changed; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    if known is not None and known.stamp == stamp:
        return known
    if status.st_size > min(_FILE_BYTES, left):
        return _File(stamp)
    try:
        fd = os.open(path, _OPEN)
        with open(fd, "rb") as file:  # noqa: PTH123  # it has a descriptor
            data = file.read(_FILE_BYTES + 1)
        data.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return _File(stamp)
    return _File(stamp, len(data), zlib.compress(data, 1))


MAX_FILES = 50_000
LIST_TIMEOUT_S = 5.0
FRESH_S = 10.0  # a list that is older is made again
_SKIPPED = frozenset({"node_modules", "__pycache__"})


class FolderFiles:
    """Lists the files of a folder that git does not ignore, and finds a mentioned one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._paths: tuple[str, ...] = ()
        self._listed_s = float("-inf")

    @property
    def is_fresh(self) -> bool:
        """Whether the list was made a short time ago."""
        return time.monotonic() - self._listed_s < FRESH_S

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths as last listed."""
        return self._paths

    def refresh(self) -> tuple[str, ...]:
        """List the files again; this reads the disk."""
        listed = _git_files(self.folder)
        if listed is None:
            listed = list(_walk(self.folder))
        self._paths = tuple(sorted(dict.fromkeys(listed), key=lambda path: (path.count("/"), path)))
        self._listed_s = time.monotonic()
        return self._paths

    def find(self, mention: str) -> Path | None:
        """Return the file of a mention, with links resolved; None if it is not in the folder."""
        path = self.folder / mention
        try:
            real, root = real_path(str(path)), real_path(str(self.folder))
        except (OSError, ValueError):
            return None
        if not is_within(root, real) or not Path(real).is_file():
            return None
        return Path(real)


def _git_files(folder: Path) -> list[str] | None:
    """Return what git tracks or would add below a folder; None if git does not know it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=LIST_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    names = done.stdout.decode("utf-8", "replace").split("\0")[:MAX_FILES]
    return [name for name in names if name and _exists(folder / name)]


def _exists(path: Path) -> bool:
    try:
        return path.is_file()  # git also lists what was deleted
    except OSError:
        return False


def _walk(folder: Path) -> Iterator[str]:
    count = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _SKIPPED
        )
        for name in sorted(files):
            if name.startswith("."):
                continue
            yield Path(place, name).relative_to(folder).as_posix()
            count += 1
            if count == MAX_FILES:
                return
