"""The changes that tool calls make in files: their hunks, the review of them, and where they are.

A diff has `Hunk`s, and one of them can be undone in the file as it is now. `Review` keeps which of
them the user has accepted or rejected. `place_of` and `read_place` follow the agent to the file
that it works on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from accord.client.events import ToolCall
from accord.errors import AccordError
from accord.local.files import Roots
from accord.types.diffs import DiffLine, diff_lines
from accord.types.tool_calls import Diff


class Conflict(Exception):
    """The file has changed since, so that the hunk cannot be undone."""


class Hunk(Struct, frozen=True):
    """Adjacent changes with their context; or a whole file that was created or deleted."""

    path: str
    lines: tuple[DiffLine, ...]
    kind: Literal["changed", "created", "deleted"] = "changed"
    text: str = ""  # the whole text of a file that was created, deleted or emptied

    @property
    def first_line(self) -> int:
        """The line of the file after the change at which the hunk begins, from 1."""
        return next((line.new for line in self.lines if line.new is not None), 1)

    @property
    def changed_line(self) -> int:
        """The line of the file at which the change itself begins."""
        for line in self.lines:
            if line.sign == "+" and line.new is not None:
                return line.new
        return self.first_line


def hunks_of(diff: Diff) -> Iterator[Hunk]:
    """Yield the hunks of a diff."""
    if diff.patch is None and (diff.old is None) != (diff.new is None):
        kind = "created" if diff.old is None else "deleted"
        yield Hunk(diff.path, tuple(diff_lines(diff)), kind, diff.new or diff.old or "")
        return
    if diff.patch is not None and (whole := _whole_file(diff, diff.patch)) is not None:
        yield whole
        return
    lines: list[DiffLine] = []
    for line in diff_lines(diff):
        if line.sign == "gap":
            yield from _hunk(diff, lines)
            lines = []
        elif line.sign != "remark":
            lines.append(line)
    yield from _hunk(diff, lines)


def _hunk(diff: Diff, lines: list[DiffLine]) -> Iterator[Hunk]:
    if any(line.sign in "+-" for line in lines):
        # A v1 agent says of a deleted file that its new text is empty.
        yield Hunk(diff.path, tuple(lines), text=(diff.old or "") if diff.new == "" else "")


def _whole_file(diff: Diff, patch: str) -> Hunk | None:
    """Return the hunk of a patch that creates or deletes one file, None for other patches."""
    head, _, body = patch.partition("\n@@ ")
    header = head.split("\n")
    if "--- /dev/null" in header:
        kind, sign = "created", "+"
    elif "+++ /dev/null" in header:
        kind, sign = "deleted", "-"
    else:
        return None
    lines = body.rstrip("\n").split("\n")[1:]
    ends_in_line = lines[-1:] == ["\\ No newline at end of file"]
    if ends_in_line:
        lines.pop()
    if not lines or any(not line.startswith(sign) for line in lines):
        return None  # it changes other files, too
    text = "\n".join(line[1:] for line in lines) + "\n" * (not ends_in_line)
    return Hunk(diff.path, tuple(diff_lines(diff)), kind, text)


def undo(hunk: Hunk, roots: Roots) -> None:
    """Write the old text of a hunk back, if the file still has the new text.

    Raises `Conflict`, which says why, and `OSError`, also for a file outside of
    the directories.
    """
    if hunk.kind == "deleted":
        _create_again(hunk, roots)
        return
    try:
        text = roots.read(hunk.path)
    except FileNotFoundError:
        if hunk.kind == "changed" and hunk.text:
            _create_again(hunk, roots)
            return
        raise Conflict("the file does not exist any more") from None
    except UnicodeDecodeError:
        raise Conflict("the file is not text any more") from None
    if hunk.kind == "created":
        if text != hunk.text:
            raise Conflict("the file has been changed since")
        roots.remove(hunk.path)
        return
    new, before = undone_text(hunk, text), text.encode("utf-8")

    def expected(now: bytes | None) -> None:
        if now != before:
            raise Conflict("the file is being changed")

    roots.replace(hunk.path, new.encode("utf-8"), expected=expected)


def _create_again(hunk: Hunk, roots: Roots) -> None:
    try:
        roots.create(hunk.path, hunk.text.encode("utf-8"))
    except FileExistsError:
        raise Conflict("the file exists again") from None


def undone_text(hunk: Hunk, text: str) -> str:
    """Return the text of a file without the change; raise `Conflict` if it has another text."""
    lines = text.split("\n")
    wanted = [line.text for line in hunk.lines if line.sign != "-"]
    at = found_at(lines, wanted, hunk.first_line - 1)
    if at is None:
        old = [line.text for line in hunk.lines if line.sign != "+"]
        if found_at(lines, old, hunk.first_line - 1) is not None:
            raise Conflict("it is undone already")
        raise Conflict("these lines have been changed since")
    ends_with_return = bool(wanted) and any(line.endswith("\r") for line in lines[at : at + 3])
    new: list[str] = []
    now = at
    for line in hunk.lines:
        if line.sign == "-":
            new.append(line.text + "\r" * (ends_with_return and not line.text.endswith("\r")))
        else:
            if line.sign == " ":
                new.append(lines[now])
            now += 1
    return "\n".join([*lines[:at], *new, *lines[now:]])


def lines_before(hunk: Hunk, text: str) -> int:
    """Return how many lines of the file precede the text of the diff; 0 if that is not known.

    The numbers of a hunk begin at 1 also if the agent has sent only an excerpt of the file.
    """
    lines, expected = text.split("\n"), hunk.first_line - 1
    for other in "-+":  # as it was made, and as it was undone
        block = [line.text for line in hunk.lines if line.sign != other]
        try:
            at = found_at(lines, block, expected)
        except Conflict:
            return 0
        if at is not None:
            return at - expected
    return 0


def found_at(lines: Sequence[str], wanted: Sequence[str], expected: int) -> int | None:
    """Return where a block is: at the expected index, or else at its only place.

    Returns None if no place has it. Raises `Conflict` if several have.
    """
    plain = [line.removesuffix("\r") for line in lines]
    block = [line.removesuffix("\r") for line in wanted]
    size = len(block)
    if size == 0:
        return 0 if plain in ([], [""]) else None
    if plain[expected : expected + size] == block:
        return expected
    first = block[0]
    found = [
        at
        for at in range(len(plain) - size + 1)
        if plain[at] == first and plain[at : at + size] == block
    ]
    if len(found) > 1:
        raise Conflict("these lines are in the file several times")
    return found[0] if found else None


# The review.

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


# Where the agent works.

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
