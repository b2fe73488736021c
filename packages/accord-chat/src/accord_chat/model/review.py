"""Which hunks of a session were accepted or rejected; a rejected one is undone once it is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from accord.client.events import ToolCall
from accord.errors import AccordError
from accord.local.files import Roots
from accord.types.tool_calls import Diff
from accord_chat.model.hunks import Conflict, Hunk, hunks_of, lines_before, undo

# `waiting`: rejected, and the tool call that makes the change is open.
Verdict: TypeAlias = Literal["open", "accepted", "rejected", "waiting", "conflict"]
Key: TypeAlias = tuple[str, Hunk]


@lru_cache(maxsize=256)  # they are read with each key
def _hunks(diff: Diff) -> tuple[Hunk, ...]:
    return tuple(hunks_of(diff))


class ReviewedHunk(Struct, frozen=True):
    """A hunk, the tool call that made it, and what the user said."""

    call: ToolCall
    hunk: Hunk
    verdict: Verdict
    why: str = ""  # of a conflict

    @property
    def key(self) -> Key:
        """What distinguishes it from other hunks."""
        return self.call.id, self.hunk


class Review:
    """The verdicts of the user on the changes of one session."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = list(folders)
        self._verdicts: dict[Key, tuple[Verdict, str]] = {}

    def hunks(self, calls: Iterable[ToolCall]) -> Iterator[ReviewedHunk]:
        """Yield the hunks of all tool calls that have not failed."""
        for call in calls:
            if call.status in ("failed", "cancelled"):
                continue
            for part in call.content:
                if isinstance(part, Diff):
                    for hunk in _hunks(part):
                        verdict, why = self._verdicts.get((call.id, hunk), ("open", ""))
                        yield ReviewedHunk(call, hunk, verdict, why)

    def changed_line(self, hunk: Hunk) -> int:
        """Return the line of the file at which a change begins; this reads the file."""
        return hunk.changed_line + self.lines_before(hunk)

    def lines_before(self, hunk: Hunk) -> int:
        """Return what to add to the numbers of a hunk if its diff is an excerpt of the file.

        This reads the file.
        """
        try:
            return lines_before(hunk, Roots(self._folders).read(hunk.path))
        except (AccordError, OSError, UnicodeDecodeError):
            return 0

    def accept(self, reviewed: ReviewedHunk) -> None:
        """Keep a change. One that was undone stays undone."""
        if reviewed.verdict not in ("rejected", "conflict"):
            self._verdicts[reviewed.key] = ("accepted", "")

    def reject(self, reviewed: ReviewedHunk) -> Verdict:
        """Undo a change, now or when the tool call has made it; return the new verdict.

        This reads and writes the file.
        """
        if reviewed.verdict == "rejected":
            return "rejected"
        verdict, why = ("waiting", "") if reviewed.call.is_open else self._undo(reviewed.hunk)
        self._verdicts[reviewed.key] = verdict, why
        return verdict

    def finished(self, call: ToolCall) -> list[tuple[Hunk, Verdict, str]]:
        """Undo what waits for this tool call; return what was done."""
        waiting = [
            key
            for key, (verdict, _) in self._verdicts.items()
            if verdict == "waiting" and key[0] == call.id
        ]
        done: list[tuple[Hunk, Verdict, str]] = []
        for key in reversed(waiting):  # from the end of the file, so that lines stay in place
            if call.status == "completed" or call.unfinished:  # it can have made the change
                self._verdicts[key] = self._undo(key[1])
                done.append((key[1], *self._verdicts[key]))
            else:
                del self._verdicts[key]  # the change was not made
        return done

    def _undo(self, hunk: Hunk) -> tuple[Verdict, str]:
        try:
            undo(hunk, Roots(self._folders))
        except Conflict as conflict:
            return "conflict", str(conflict)
        except (AccordError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else None
            return "conflict", why or str(error)
        return "rejected", ""
