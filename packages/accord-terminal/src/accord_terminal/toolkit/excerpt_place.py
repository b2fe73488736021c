"""Where in its file the text of a diff is: agents may send only an excerpt, which counts from 1."""

from __future__ import annotations

from accord.client.events import ToolCall
from accord.errors import AccordError
from accord.local.files import Roots
from accord.types.diffs import diff_lines
from accord.types.tool_calls import Diff

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
        # The other text must not be searched if this one is at several places: it may be elsewhere.
        if places := _places(file, text):
            return places[0] - first if len(places) == 1 else unknown
    return unknown


def _places(file: str, text: str) -> list[int]:
    """Return how many lines precede a text of whole lines, for its first two places."""
    if not text:
        return [0, 1] if file else [0]  # no text is everywhere
    # Searched as one string: comparing lists of lines can take quadratic time.
    block = "\n" + "\n".join(text.removeprefix("\ufeff").splitlines()) + "\n"
    whole = file.removeprefix("\ufeff").replace("\r\n", "\n")
    whole = "\n" + whole.removesuffix("\n") + "\n"
    at = whole.find(block)
    second = whole.find(block, at + 1) if at >= 0 else -1
    return [whole.count("\n", 0, found) for found in (at, second) if found >= 0]
