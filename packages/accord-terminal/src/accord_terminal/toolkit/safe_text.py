"""Makes text from an agent or a command safe to show: no control or invisible characters."""

from __future__ import annotations

import os
import re
from pathlib import Path

from accord.text.excerpt import excerpt, hidden_removed, output_lines

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
