"""Where in its file the text of a diff is: agents may send only an excerpt, which counts from 1."""

from __future__ import annotations

from accord.client.events import ToolCall
from accord.errors import AccordError
from accord.local.files import Roots
from accord.types.diff_lines import diff_lines
from accord.types.tool_calls import Diff

__all__ = ("lines_before_diff",)

MAX_FILE = 1_000_000  # bytes; it is read while the screen is drawn


def lines_before_diff(diff: Diff, call: ToolCall, folder: str | None) -> int | None:
    """Return what to add to the numbers of a diff, None if its place in the file is not known.

    This reads the file, which must be in the folder and have the text at one place only. A patch
    keeps its own numbers if no place is certain.
    """
    if diff.patch is None:
        if diff.old is None or diff.new is None:
            return 0  # a whole file
        texts, first, unknown = (diff.old, diff.new), 0, None
    else:
        lines = list(diff_lines(diff))
        if not lines or f"\n{diff.patch}".count("\n@@ ") != 1:
            return 0
        old, new = (
            "".join(f"{line.text}\n" for line in lines if line.sign != other) for other in "+-"
        )
        texts, first, unknown = (old, new), (lines[0].old or lines[0].new or 1) - 1, 0
    if not folder:
        return unknown
    try:
        file = Roots([folder]).read(diff.path, max_bytes=MAX_FILE)
    except FileNotFoundError:
        file = ""
    except (AccordError, OSError, ValueError):
        return unknown
    for text in reversed(texts) if call.status == "completed" else texts:
        if (found := _only_place(file, text)) is not None:
            return found - first
    return unknown


def _only_place(file: str, text: str) -> int | None:
    """Return how many lines precede the only place of whole lines, None without such a place."""
    if not text:
        return None if file else 0
    # Searched as one string: comparing lists of lines can take quadratic time.
    block = "\n" + "\n".join(text.removeprefix("\ufeff").splitlines()) + "\n"
    whole = file.removeprefix("\ufeff").replace("\r\n", "\n")
    whole = "\n" + whole.removesuffix("\n") + "\n"
    at = whole.find(block)
    if at < 0 or whole.find(block, at + 1) >= 0:
        return None
    return whole.count("\n", 0, at)
