"""A program that searches files without ripgrep; its output is that of `rg --json`.

It is a separate process, like ripgrep: no thread can stop a regular expression that backtracks.
"""

from __future__ import annotations

import base64
import os
import re
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from accord_coder.tools.walk import matcher, walk

MAX_FILE_BYTES = 10 * 1024 * 1024
_CANNOT_BE_SEARCHED = 2  # exit status of ripgrep
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_OPENS = os.O_RDONLY | _NO_LINKS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Search(TypedDict):
    """The search; `path` is an absolute path of a file or a directory."""

    pattern: str
    path: str
    glob: str | None
    ignore_case: bool
    context: int


def main() -> int:
    """Run the search in the first argument, as JSON; return the exit status."""
    search = msgspec.json.decode(sys.argv[1], type=Search)
    try:
        regex = re.compile(search["pattern"], re.IGNORECASE if search["ignore_case"] else 0)
    except re.error as error:
        sys.stdout.write(f"regex parse error: {error}\n")
        return _CANNOT_BE_SEARCHED
    for path in _files(search):
        data = _read(path)
        if data is not None:
            _search(path, data, regex, search["context"])
    return 0


def _files(search: Search) -> Iterator[str]:
    top = search["path"]
    if not Path(top).is_dir():
        yield top
        return
    fits = None if search["glob"] is None else matcher(search["glob"])
    for entry in walk(top):
        if entry.is_folder or entry.is_link or entry.is_ignored:
            continue
        if fits is None or fits(entry.path):
            yield os.path.join(top, entry.path)  # noqa: PTH118  # no Path for each of many files


def _read(path: str) -> str | None:
    """Return the text of a file; None if it is not text, too large, or cannot be read."""
    try:
        fd = os.open(path, _OPENS)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            data = file.read(MAX_FILE_BYTES + 1)
        except OSError:
            return None
    if len(data) > MAX_FILE_BYTES or b"\0" in data:
        return None
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


def _search(path: str, text: str, regex: re.Pattern[str], context: int) -> None:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines and not lines[-1]:
        lines.pop()
    matching = [number for number, line in enumerate(lines) if regex.search(line)]
    if not matching:
        return
    matches = set(matching)
    shown = sorted(
        {
            number
            for at in matching
            for number in range(max(0, at - context), min(len(lines), at + context + 1))
        }
    )
    named: dict[str, Any] = {"text": path}
    if not path.isascii():
        named = {"bytes": base64.b64encode(os.fsencode(path)).decode()}
    _print("begin", {"path": named})
    for number in shown:
        kind = "match" if number in matches else "context"
        line = {"text": lines[number] + "\n"}
        _print(kind, {"path": named, "lines": line, "line_number": number + 1})
    _print("end", {"path": named, "binary_offset": None})
    sys.stdout.flush()


def _print(kind: str, data: dict[str, Any]) -> None:
    text = msgspec.json.encode({"type": kind, "data": data})
    sys.stdout.buffer.write(text + b"\n")


if __name__ == "__main__":
    sys.exit(main())
