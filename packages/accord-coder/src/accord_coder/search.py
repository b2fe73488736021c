"""Walks directories without ignored files, and as a program searches files if there is no ripgrep.

Like ripgrep, `walk` reads the `.gitignore` files from the repository's root down, or from the root
of the file system without a repository. It does not read `.git/info/exclude`, the user's list, and
`.ignore` files. Links are listed but not followed; `.git` is skipped.

The search is a separate process (`main`), like ripgrep: no thread can stop a regular expression
that backtracks. Its output is that of `rg --json`.
"""

from __future__ import annotations

import base64
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import msgspec

from accord_coder.settings import with_parents
from accord_coder.wildcards import PatternTooLong, Wildcards, check_length, git_pattern

_MAX_IGNORE_CHARACTERS = 250_000  # of a file


class Entry(NamedTuple):
    """An entry of a directory; `path` is relative to the start of the walk, with slashes."""

    path: str
    is_folder: bool
    is_link: bool
    is_ignored: bool


class _Rule(NamedTuple):
    pattern: Wildcards
    is_negated: bool
    only_folders: bool
    whole_path: bool  # else only the name


class _Ignore(NamedTuple):
    base: str  # absolute, ends in a slash
    rules: list[_Rule]

    def verdict(self, absolute: str, *, is_folder: bool) -> bool | None:
        path = absolute[len(self.base) :]
        name = path.rpartition("/")[2]
        for rule in reversed(self.rules):
            if rule.only_folders and not is_folder:
                continue
            if rule.pattern.matches(path if rule.whole_path else name):
                return not rule.is_negated
        return None


class _Folder(NamedTuple):
    path: str  # in the walk, ends in a slash unless it is empty
    depth: int
    entries: Iterator[os.DirEntry[str]]
    ignores: tuple[_Ignore, ...]  # the nearest first


def walk(
    top: str, *, stop: Callable[[], bool] = lambda: False, depth: int | None = None
) -> Iterator[Entry]:
    """Yield the entries of a directory, sorted, and of those below up to a depth.

    Ignored directories are yielded but not entered. Raises `OSError` only for `top`.
    """
    ignores = (*_ignore_of(top), *_above(top))
    stack = [_Folder("", 1, _sorted(top), ignores)]
    while stack and not stop():
        here = stack[-1]
        entry = next(here.entries, None)
        if entry is None:
            stack.pop()
            continue
        if entry.name == ".git":
            continue
        is_link = entry.is_symlink()
        is_folder = _is_folder(entry)
        absolute = _slashes(entry.path)
        is_ignored = _ignored(here.ignores, absolute, is_folder=is_folder and not is_link)
        path = here.path + entry.name
        yield Entry(path, is_folder, is_link, is_ignored)
        if is_folder and not is_link and not is_ignored and (depth is None or here.depth < depth):
            try:
                below = _sorted(entry.path)
            except OSError:
                continue
            more = (*_ignore_of(entry.path), *here.ignores)
            stack.append(_Folder(f"{path}/", here.depth + 1, below, more))


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches a path with a pattern of *, ?, [], {,} and **.

    A pattern without a slash matches names in any directory. Raises `PatternTooLong`.
    """
    check_length(pattern)
    pattern = pattern.removeprefix("./")
    alternatives = [
        found
        for one in _alternatives(pattern)
        if (found := git_pattern(one, lenient=True)) is not None
    ]
    names_only = "/" not in pattern

    def fits(path: str) -> bool:
        text = path.rpartition("/")[2] if names_only else path
        return any(one.matches(text) for one in alternatives)

    return fits


def _sorted(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return iter(sorted(entries, key=lambda entry: os.fsencode(entry.name)))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _slashes(path: str) -> str:
    return path if os.sep == "/" else path.replace(os.sep, "/")


def _ignored(ignores: tuple[_Ignore, ...], absolute: str, *, is_folder: bool) -> bool:
    for ignore in ignores:
        verdict = ignore.verdict(absolute, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def _above(top: str) -> list[_Ignore]:
    """Return the rules of the parent directories, up to the repository's root."""
    found: list[_Ignore] = []
    for here in with_parents(top):
        if here != os.path.normpath(top):
            found += _ignore_of(here)
        if os.path.lexists(os.path.join(here, ".git")):  # noqa: PTH118  # no Path here: speed
            break
    return found


def _ignore_of(folder: str) -> tuple[_Ignore, ...]:
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace") as file:  # noqa: PTH118, PTH123  # as above
            lines = file.read(_MAX_IGNORE_CHARACTERS).split("\n")
    except OSError:
        return ()
    rules = [rule for line in lines if (rule := _rule(line)) is not None]
    base = _slashes(folder).rstrip("/") + "/"
    return (_Ignore(base, rules),) if rules else ()


def _rule(line: str) -> _Rule | None:
    stripped = line.rstrip()
    if stripped.endswith("\\") and len(stripped) < len(line):
        stripped = line[: len(stripped) + 1]  # an escaped space
    if not stripped or stripped.startswith("#"):
        return None
    is_negated = stripped.startswith("!")
    text = stripped[1:] if is_negated else stripped
    only_folders = text.endswith("/")
    text = text.rstrip("/")
    whole_path = "/" in text
    try:
        pattern = git_pattern(text.removeprefix("/"))
    except PatternTooLong:
        return None
    if not text or pattern is None:
        return None
    return _Rule(pattern, is_negated, only_folders, whole_path)


def _alternatives(pattern: str, max_count: int = 100) -> list[str]:
    """Expand the braces of a pattern; those beyond the limit stay literal."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        braces = _innermost_braces(one)
        if braces is None or len(waiting) + len(done) > max_count:
            done.append(one)
            continue
        opened, closed = braces
        before, after = one[:opened], one[closed + 1 :]
        waiting += [f"{before}{part}{after}" for part in one[opened + 1 : closed].split(",")]
    return done


def _innermost_braces(pattern: str) -> tuple[int, int] | None:
    """Return the positions of the first innermost braces that contain a comma."""
    opened = -1
    for at, character in enumerate(pattern):
        if character == "{":
            opened = at
        elif character == "}" and opened >= 0:
            if "," in pattern[opened:at]:
                return opened, at
            opened = -1
    return None


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
