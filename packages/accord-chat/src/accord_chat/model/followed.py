"""Where the agent works: the place that a tool call names, and the file there with the change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from accord.client.events import ToolCall
from accord.errors import AccordError
from accord.local.files import Roots
from accord.types.tool_calls import Diff
from accord_chat.model.hunks import Conflict, Hunk, found_at, hunks_of

MAX_BYTES = 2_000_000  # of a file that is shown
MAX_LINES = 400  # around the place

# `proposed`: the file does not have the change yet. `gone`: it has neither the old nor the new.
ChangeState: TypeAlias = Literal["none", "proposed", "made", "gone"]


class Place(Struct, frozen=True):
    """A file that a tool call names, the line, and the changes that the call makes there."""

    path: str
    line: int | None
    title: str
    hunks: tuple[Hunk, ...] = ()


class FileLine(Struct, frozen=True):
    """A line of a file as it is shown: `sign` is `+` or `-` in a change."""

    text: str
    number: int | None = None  # in the file; None for a line that it does not have
    sign: str = " "


class FollowedFile(Struct, frozen=True):
    """A part of a file around a place; `at` is the index of its line."""

    place: Place
    lines: tuple[FileLine, ...] = ()
    at: int = 0
    before: int = 0  # lines that are not shown
    after: int = 0
    change: ChangeState = "none"
    problem: str = ""  # why it cannot be shown


def names_file(call: ToolCall) -> bool:
    """Return whether a tool call says where the agent works."""
    if call.locations:
        return True
    for part in call.content:  # noqa: SIM110  # for each update: without a generator
        if type(part) is Diff:
            return True
    return False


def location_of(call: ToolCall) -> tuple[str, int | None] | None:
    """Return the last file and line that a tool call names."""
    place = place_of(call)
    return None if place is None else (place.path, place.line)


def place_of(call: ToolCall) -> Place | None:
    """Return the last place that a tool call names: that of a change, else a location."""
    hunks = [hunk for part in call.content if isinstance(part, Diff) for hunk in hunks_of(part)]
    if hunks:
        last = hunks[-1]
        mine = tuple(hunk for hunk in hunks if hunk.path == last.path)
        return Place(last.path, last.changed_line, call.title, mine)
    if call.locations:
        return Place(call.locations[-1].path, call.locations[-1].line, call.title)
    return None


def read_place(place: Place, roots: Roots) -> FollowedFile:
    """Read the file of a place, if it is inside the directories; this blocks."""
    try:
        text = roots.read(place.path, max_bytes=MAX_BYTES)
    except FileNotFoundError:
        whole = next((hunk for hunk in place.hunks if hunk.kind != "changed"), None)
        if whole is None:
            return FollowedFile(place, problem="the file does not exist")
        lines = [FileLine(one.text, one.new, one.sign) for one in whole.lines if one.sign in "+-"]
        return _part(place, lines, "proposed" if whole.kind == "created" else "made", 0)
    except UnicodeDecodeError:
        return FollowedFile(place, problem="the file is not text")
    except (AccordError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        return FollowedFile(place, problem=why or str(error))
    texts = [line.removesuffix("\r") for line in text.split("\n")]
    if len(texts) > 1 and not texts[-1]:
        del texts[-1]  # after the last line end
    return _with_changes(place, texts)


def _with_changes(place: Place, texts: list[str]) -> FollowedFile:
    """Return a file with its changes, whether they are made or only proposed."""
    for hunk in place.hunks:
        if hunk.kind != "changed":
            is_new = hunk.kind == "created"
            sign = "+" if is_new else "-"
            lines = [FileLine(text, number, sign) for number, text in enumerate(texts, 1)]
            return _part(place, lines, "made" if is_new else "proposed", 0)
    found = [one for hunk in place.hunks if (one := _find(texts, hunk)) is not None]
    lines: list[FileLine] = []
    done = at = 0
    for one in sorted(found, key=lambda one: one.start):
        lines += _same(texts, done, one.start)
        if place.hunks[-1] is one.hunk:
            changed = next(n for n, line in enumerate(one.hunk.lines) if line.sign in "+-")
            at = len(lines) + changed
        lines += one.lines()
        done = max(done, one.start + one.size)
    lines += _same(texts, done, len(texts))
    if not any(one.hunk is place.hunks[-1] for one in found):
        at = max((place.line or 1) - 1, 0)
    states = {one.is_made for one in found}
    change: ChangeState = "made" if True in states else "proposed" if states else "none"
    return _part(place, lines, "gone" if place.hunks and not found else change, at)


class _Found(Struct, frozen=True):
    """A hunk, and the lines of the file that it has made, or is going to replace."""

    hunk: Hunk
    start: int
    size: int
    is_made: bool

    def lines(self) -> Iterator[FileLine]:
        """Yield the lines of both texts."""
        missing = "-" if self.is_made else "+"
        number = self.start + 1
        for line in self.hunk.lines:
            if line.sign == missing:
                yield FileLine(line.text, None, line.sign)
            else:
                yield FileLine(line.text, number, line.sign)
                number += 1


def _find(texts: Sequence[str], hunk: Hunk) -> _Found | None:
    for is_made, missing in ((True, "-"), (False, "+")):
        block = [line.text for line in hunk.lines if line.sign != missing]
        try:
            start = found_at(texts, block, hunk.first_line - 1)
        except Conflict:  # the file has it several times
            continue
        if start is not None:
            return _Found(hunk, start, len(block), is_made)
    return None


def _same(texts: Sequence[str], start: int, end: int) -> Iterator[FileLine]:
    return (FileLine(texts[at], at + 1) for at in range(start, end))


def _part(place: Place, lines: list[FileLine], change: ChangeState, at: int) -> FollowedFile:
    """Return the lines around one of them."""
    at = min(at, max(len(lines) - 1, 0))
    start = max(0, min(at - MAX_LINES // 2, len(lines) - MAX_LINES))
    end = start + MAX_LINES
    return FollowedFile(
        place,
        tuple(lines[start:end]),
        at - start,
        before=start,
        after=max(0, len(lines) - end),
        change=change,
    )
