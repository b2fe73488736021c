"""The hunks of a diff, and undoing one of them in the file as it is now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

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
