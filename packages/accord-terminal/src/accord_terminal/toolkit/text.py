"""Text for terminals and pipes: made safe to show, in rows and tables, and written.

Nothing here imports rich, except for a table.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TextIO

from msgspec import Struct

from accord.text.excerpt import excerpt, hidden_removed, output_lines

# Makes text from an agent or a command safe to show: no control or invisible characters.

TAIL_BYTES = 16 * 1024  # at the end of an output, searched for its last lines
MAX_TITLE = 300  # characters


def printable(text: str) -> str:
    """Return a text without control characters and invisible characters."""
    return hidden_removed(text)


def one_line(text: str, max_length: int = MAX_TITLE) -> str:
    """Return a text as one line, so that it cannot imitate other lines of the output."""
    # U+2800 is an empty Braille pattern.
    return excerpt(
        " ".join(printable(text[: 4 * max_length]).replace("\u2800", " ").split()), max_length
    )


def relative_path(path: str, cwd: str | None) -> str:
    """Return a path relative to the session's directory, if it is inside."""
    if cwd is None or not Path(path).is_absolute():
        return path
    inside = os.path.relpath(path, cwd)
    return path if inside.startswith(os.pardir) else inside


def relative_title(title: str, cwd: str | None) -> str:
    """Return a title as one line, with its paths relative to the session's directory.

    A long one keeps both ends: commands tell at the end what they do.
    """
    title = one_line(_ends(title, 4 * MAX_TITLE), 5 * MAX_TITLE)
    if cwd is not None and len(cwd) > 1:
        title = re.sub(rf"(?<![\w./~-]){re.escape(cwd)}[/\\](?=[^\s/])", "", title)
    return _ends(title, MAX_TITLE)


def _ends(text: str, max_length: int) -> str:
    if len(text) <= max_length:
        return text
    half = (max_length - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def last_lines(output: bytes | bytearray | str, max_lines: int) -> tuple[list[str], bool]:
    """Return the last lines of an output, and whether earlier lines exist."""
    if isinstance(output, str):
        output = output[-TAIL_BYTES:].encode("utf-8", "replace")
    text = bytes(output[-TAIL_BYTES:]).decode("utf-8", "replace")
    lines = output_lines(text.rstrip())
    if lines == [""]:
        return [], False
    return lines[-max_lines:], len(lines) > max_lines or len(output) >= TAIL_BYTES


# Lines of text with a gutter. In a pipe a row is one line; a terminal folds it.

GUTTER = "  │ "


class Row(Struct, frozen=True):
    """A line of text; `lead` precedes its first terminal line, `rest` the folded ones."""

    text: str
    style: str = ""
    lead: str = ""
    rest: str | None = None  # as wide as `lead`; None: spaces
    lead_style: str = ""
    whole_words: bool = True

    @property
    def plain(self) -> str:
        """The row as one line."""
        return f"{self.lead}{self.text}"


# Tables at the terminal as lines of text: numbers are always whole, names are shortened.

_LEAST_NAME = 8
_GAP = "  "
_WHOLE = 10_000


def terminal_width() -> int:
    """Return the columns of the terminal; with a pipe, enough for whole lines."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return _WHOLE


def table_lines(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    names: Sequence[int] = (0,),
    left: Sequence[int] = (),
    paths: Sequence[int] = (),
) -> Iterator[str]:
    """Yield a table; the columns `names` are on the left and lose what `width` has no room for.

    The columns `left` are on the left, too, and stay whole. Names that are `paths` keep their ends.
    The texts must be single lines without characters that hide text.
    """
    from rich.cells import cell_len

    table = [head, *rows]
    widths = [max(cell_len(row[at]) for row in table) for at in range(len(head))]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        longest = max(names, key=widths.__getitem__)
        if widths[longest] <= _LEAST_NAME:
            break
        widths[longest] -= 1
        excess -= 1
    for row in table:
        cells = (
            _cell(text, widths[at], is_left=at in names or at in left, is_path=at in paths)
            for at, text in enumerate(row)
        )
        yield _GAP.join(cells).rstrip()


def _cell(text: str, width: int, *, is_left: bool, is_path: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    size = cell_len(text)
    if size > width and is_path:
        end = text
        while cell_len(end) >= width:
            end = end[1:]
        return set_cell_size(f"…{end}", width)
    if size > width:
        return set_cell_size(set_cell_size(text, width - 1) + "…", width)
    space = " " * (width - size)
    return text + space if is_left else space + text


TAB = 8


class Writer(Protocol):
    """A stream and the form in which rows are written to it."""

    stream: TextIO
    is_terminal: bool

    @property
    def has_live_region(self) -> bool:
        """Whether lines below the written ones can be redrawn."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        ...

    @property
    def width(self) -> int:
        """The usable columns."""
        ...

    def render_rows(self, rows: Iterable[Row]) -> list[str]:
        """Return the lines of rows, as the stream shows them."""
        ...

    def fold_text(self, text: str, width: int) -> list[str]:
        """Return the lines of a text, cut to a width."""
        ...

    def cut_line(self, text: str) -> str:
        """Return the beginning of a line that fits into the usable columns."""
        ...

    def write_lines(self, lines: Sequence[str], live_lines: Sequence[str] = ()) -> None:
        """Write lines; replace the live region."""
        ...

    def write(self, text: str) -> None:
        """Write a text unchanged."""
        ...


class PlainWriter:
    """Writes each row as one line, without styles and without a live region."""

    is_terminal = False
    has_live_region = False

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, from the environment if it names them."""
        columns, lines = shutil.get_terminal_size()
        return columns, lines

    @property
    def width(self) -> int:
        """The usable columns."""
        return max(self.size[0] - 1, 1)

    def render_rows(self, rows: Iterable[Row]) -> list[str]:
        """Return one line for each row."""
        return [row.plain.expandtabs(TAB).rstrip(" \n") for row in rows]

    def fold_text(self, text: str, width: int) -> list[str]:
        """Return the lines of a text, uncut."""
        return text.rstrip("\n").split("\n")

    def cut_line(self, text: str) -> str:
        """Return the whole line."""
        return text

    def write_lines(self, lines: Sequence[str], live_lines: Sequence[str] = ()) -> None:
        """Write lines."""
        if lines:
            self.write("".join(f"{line}\n" for line in lines))

    def write(self, text: str) -> None:
        """Write a text unchanged."""
        if text:
            self.stream.write(text)
        self.stream.flush()


_STEERED = {
    "injected": "the agent has it",
    "queued": "queued",
    "restarted": "the turn was cancelled for it",
    "started": "the agent works on it in a turn of its own",
}


def steered_text(outcome: str, by: str = "agent", reason: str = "") -> str:
    """Return the outcome of a message that was said while a turn ran; see `accord.Steered`."""
    text = _STEERED.get(outcome, outcome)
    if outcome == "queued":
        why = reason or ("" if by == "client" else "the agent runs it after the prompt before it")
        text = f"{text}: {why}" if why else text
    return text
