"""Shows the changes of files that an agent makes during a turn and does not report."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from accord.cli.ask.safe_text import relative_path
from accord.client.events import ToolCall
from accord.types.tool_calls import Diff
from accord_chat.model.folder_files import FolderFiles
from accord_chat.model.timeline import Timeline
from accord_chat.model.unreported import FolderState, changes_between, state_of

__all__ = ("TurnChanges",)

_LOOK_S = 2.0  # for one look at the folder; a prompt waits for it
_MAX_NAMES = 20


class TurnChanges:
    """Compares the folder before and after each turn, if it can be read in two seconds."""

    def __init__(self, files: FolderFiles, timeline: Timeline) -> None:
        self.is_wanted = True  # the files of the agent are here
        self._files = files
        self._timeline = timeline
        self._before: FolderState | None = None
        self._is_too_slow = False
        self._count = 0

    async def begin(self) -> None:
        """Note how the files are."""
        self._before = await self._look()

    async def end(self) -> None:
        """Add the changes since `begin` to the conversation, as one tool call with diffs."""
        before = self._before
        after = None if before is None else await self._look()
        if before is None or after is None:
            return
        self._before = after
        folder = os.fspath(self._files.folder)
        found = changes_between(before, after, folder, self._reported(folder))
        if found.diffs:
            self._count += 1
            names = _names([relative_path(diff.path, folder) for diff in found.diffs])
            call = ToolCall(
                id=f"accord-unreported-{self._count}",
                title=f"Not reported by the agent: {names}",
                kind="edit",
                status="completed",
                content=found.diffs,
            )
            self._timeline.add_call(call)
        if found.others:
            text = "Changed, not reported, and not shown (not text, too large, or too many)"
            self._timeline.remark(f"{text}: {_names(found.others)}", "quiet")

    def _reported(self, folder: str) -> set[str]:
        paths: set[str] = set()
        self._timeline.sync()
        for entry in self._timeline.entries:
            if isinstance(entry.content, ToolCall):
                for part in entry.content.content:
                    if isinstance(part, Diff):
                        paths.update((part.path, *part.others))
        # Agents report real paths, too, where the folder is reached through a link.
        return {os.path.realpath(os.path.join(folder, path)) for path in paths}  # noqa: PTH118

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


def _names(paths: Sequence[str]) -> str:
    names = ", ".join(paths[:_MAX_NAMES])
    more = len(paths) - _MAX_NAMES
    return f"{names} and {more} more" if more > 0 else names
