"""Finds the files that a command names: secrets, guarded files, and paths outside.

The meaning of a program's arguments is unknown. A word counts as a path if it could be one:
 `--file=.env`, `-f.env`, `HEAD:.env`, `user@host:.env`. Links are resolved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from accord_coder.permissions.command_line import MAX_CHARACTERS, argv_of, commands_in, words_in
from accord_coder.permissions.command_rules import only_reads
from accord_coder.permissions.sensitive_files import is_guarded, is_secret, matches_secret

_MAX_PATH = 4096
# Within a word: --file=.env, user@host:.env, {.env,x}
_BREAKS = re.compile(r"[={}:,@$]")
# In a word that can be a command itself.
_SPACES = re.compile(r"[\s;&|<>()`\"']")
# So //host/path of a URL is not a path; file:///path is one.
_URL = re.compile(r"(?<![a-z0-9+.-])(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PROC = re.compile(r"[/.]*/proc/")
# Where a path can begin in short options: -rf/etc, -rf../x
_IN_OPTIONS = re.compile(r"/+[^/=:,]+|\.\.(?=/|$)")


class NamedFiles(Struct, frozen=True, kw_only=True):
    """The first secret and the first guarded file of a command, and whether one is outside."""

    secret: str | None = None
    guarded: str | None = None
    outside: bool = False


def files_named(command: str, cwd: str, is_inside: Callable[[str], bool]) -> NamedFiles:
    """Return the files that a command in a directory names; `is_inside` gets real paths. Blocks."""
    argv = argv_of(command)
    words = list(argv) if argv is not None else words_in(command)
    # Programs can access files in their directory that no argument names.
    inside = os.path.join(cwd, "any")  # noqa: PTH118  # a text
    found_secret = cwd if is_secret(inside) else None
    found_guarded = cwd if is_guarded(inside) else None
    outside = False
    seen: set[tuple[str, bool, bool]] = set()
    for number, word in enumerate(words):
        is_operand = number > 0 or argv is None
        for part, is_whole in _parts(word):
            if (part, is_whole, is_operand) in seen:
                continue
            seen.add((part, is_whole, is_operand))
            real = _real(part, cwd)
            if found_secret is None and (
                is_secret(part) or matches_secret(part) or (real is not None and is_secret(real))
            ):
                found_secret = part
            if is_whole and found_guarded is None:
                absolute = os.path.normpath(os.path.join(cwd, part))  # noqa: PTH118  # a text
                if is_guarded(absolute) or (real is not None and is_guarded(real)):
                    found_guarded = part
            if is_operand and not outside:
                outside = _leads_out(part, real, cwd, is_inside)
    if len(command) > MAX_CHARACTERS:
        found_secret = found_secret or "A part of this long command"
    if found_guarded is not None and _only_reads(command, argv):
        found_guarded = None
    return NamedFiles(secret=found_secret, guarded=found_guarded, outside=outside)


def _only_reads(command: str, argv: tuple[str, ...] | None) -> bool:
    if argv is not None:
        return only_reads(argv)
    return ">" not in command and all(map(only_reads, commands_in(command)))


def _parts(word: str) -> Iterator[tuple[str, bool]]:
    """Yield the possible paths in a word, and whether each looks like a path."""
    if not word:
        return
    yield word, True
    if word.startswith("-") and not word.startswith("--") and len(word) > 2:
        yield word[2:], True
        # -fsrc/x is not an absolute path; an existing relative path may be meant.
        if (found := _IN_OPTIONS.search(word, 2)) and os.path.lexists(found[0]):
            yield word[found.start() :], True
    whole = _BREAKS.split(_URL.sub("", word))
    if len(whole) > 1 or whole[0] != word:
        yield from ((part, True) for part in whole if part)
    if _SPACES.search(word):
        for inner in words_in(word):
            yield from ((part, False) for part in (inner, *_BREAKS.split(inner)) if part)


def _real(part: str, cwd: str) -> str | None:
    """Return the real path of a word; None if it cannot be a path or does not exist."""
    if len(part) > _MAX_PATH or "\0" in part:
        return None
    path = os.path.join(cwd, os.path.expanduser(part))  # noqa: PTH111, PTH118  # a text
    if "/" not in part and os.sep not in part and not os.path.lexists(path):
        return None
    return os.path.realpath(path)


def _leads_out(part: str, real: str | None, cwd: str, is_inside: Callable[[str], bool]) -> bool:
    if part.startswith(("~", "$HOME")):
        return True
    if part.startswith("/") or ".." in part.replace("\\", "/").split("/"):
        # /proc/self/cwd is another directory for the command than for this process.
        return real is None or not is_inside(real) or _PROC.match(part) is not None
    # A link in the project.
    return real is not None and not is_inside(real) and os.path.lexists(os.path.join(cwd, part))  # noqa: PTH118  # a text
