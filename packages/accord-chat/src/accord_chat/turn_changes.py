"""Shows the changes of files during a turn of which the agent shows no diff.

An agent has reported a change if a call names the file, also if its content was replaced later:
in a diff (of an update or of a permission request), as a location, or as an input of an edit.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from accord.client.events import Event, PermissionDecided, ToolCall
from accord.types.tool_calls import Diff
from accord_chat.model.folder_files import FolderFiles
from accord_chat.model.timeline import Timeline
from accord_chat.model.unreported import (
    FolderState,
    UnreportedChanges,
    changes_between,
    state_of,
)
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
                if paths := set(_named_paths(event)):
                    self._named.setdefault(call_id, set()).update(paths)
            case PermissionDecided(request=request) if request.tool_call is not None:
                if event.allowed:
                    self._rejected.discard(request.tool_call.id)
                elif event.option is not None:
                    self._rejected.add(request.tool_call.id)
            case _:
                pass

    async def begin(self) -> None:
        """Note how the files are."""
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
        """Yield the paths of the diffs that the conversation shows as made, or as to be made."""
        self._timeline.sync()
        for entry in self._timeline.entries:
            call = entry.content
            if (
                isinstance(call, ToolCall)
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


def _named_paths(call: ToolCall) -> Iterator[str]:
    """Yield the paths that a tool call names as those of its change."""
    for part in call.content:
        if isinstance(part, Diff):
            yield from (part.path, *part.others)
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
