r"""Patterns with wildcards, matched in linear time: repositories and models write them.

A pattern is a small automaton whose states are the bits of a number: each character of a text
takes one step, whatever the pattern. Nothing backtracks, so no pattern can make a match slow.
(Libraries such as pathspec translate patterns to regular expressions: for `*a*a…b` they take
longer than anyone waits.)

Three forms of patterns are read:

- `git_pattern`: a line of a `.gitignore` file. `*`, `?` and `[…]` stop at slashes; `**` passes
  over them if it is a whole part of the path; `[[:digit:]]` and `\*` work as in git.
- `path_pattern`: a rule for paths. `*` and `?` stop at slashes, `**` does not; `[*]` is a star.
- `text_pattern`: a rule for names, in which a slash is an ordinary character.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from accord import AccordError

MAX_CHARACTERS: Final = 1000  # of a pattern
_MAX_MASKS = 1000  # kept for characters that texts contain

_POSIX_CLASSES: dict[str, frozenset[str]] = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "blank": frozenset(" \t"),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": frozenset(string.digits),
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": frozenset(" \t\n\r\v\f"),
    "upper": frozenset(string.ascii_uppercase),
    "xdigit": frozenset(string.hexdigits),
}


class PatternTooLong(AccordError, ValueError):
    """A pattern is longer than `MAX_CHARACTERS`."""


class _Set(Struct, frozen=True):
    """One character of these; `[!…]` is negated. A slash is never in a set."""

    ranges: tuple[tuple[str, str], ...] = ()
    classes: tuple[frozenset[str], ...] = ()
    negated: bool = False

    def has(self, character: str) -> bool:
        found = any(first <= character <= last for first, last in self.ranges) or any(
            character in members for members in self.classes
        )
        return found is not self.negated and character != "/"


_NAME_CHARACTER = _Set(negated=True)  # what `?` matches in a path
_STAR = "*"  # any characters but slashes
_STARS = "**"  # any characters
_FOLDERS = "**/"  # nothing, or any characters and a slash

# A string is one literal character.
_Part = str | _Set


class Wildcards:
    """A compiled pattern."""

    def __init__(
        self, parts: list[_Part], *, ignore_case: bool = False, slashes: bool = True
    ) -> None:
        self._ignore_case = ignore_case
        self._sets: list[tuple[int, _Set]] = []
        self._literals: dict[str, int] = {}
        self._slashes = slashes
        self._any = self._name = self._skip = 0
        size = 0
        for part in parts:
            if part == _STAR:
                self._name |= 1 << size
            elif part == _STARS:
                self._any |= 1 << size
            elif part == _FOLDERS:
                self._any |= 1 << size
                self._skip |= 1 << size
                self._literals["/"] = self._literals.get("/", 0) | 1 << size
                size += 1
            elif isinstance(part, _Set):
                self._sets.append((1 << size, part))
                size += 1
            else:
                self._literals[part] = self._literals.get(part, 0) | 1 << size
                size += 1
        self._end = 1 << size
        # A literal prefix and suffix decide most matches.
        self._prefix = _literal_run(parts)
        self._suffix = _literal_run(parts[::-1])[::-1]
        self._is_literal = len(self._prefix) == len(parts)
        self._is_suffix = parts[:1] == [_STAR] and len(self._suffix) == len(parts) - 1
        self._masks: dict[str, int] = {}

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches a whole text."""
        if self._ignore_case:
            text = text.lower()
        if self._is_literal:
            return text == self._prefix
        if not text.startswith(self._prefix) or not text.endswith(self._suffix):
            return False
        if self._is_suffix:
            return "/" not in text[: len(text) - len(self._suffix)]
        state = 1 << len(self._prefix)
        state |= (state & self._skip) << 1
        masks, skip, loops_any = self._masks, self._skip, self._any
        loops = loops_any | self._name
        for character in text[len(self._prefix) :]:
            mask = masks.get(character)
            if mask is None:
                mask = self._mask(character)
            moved = (state & mask) << 1
            state &= loops_any if character == "/" else loops
            state |= moved | (moved & skip) << 1
            if not state:
                return False
        return bool(state & self._end)

    def _mask(self, character: str) -> int:
        """Return the states that a character can leave."""
        mask = self._literals.get(character, 0)
        folded = character.upper() if self._ignore_case else ""
        for bit, members in self._sets:
            takes_all = members is _NAME_CHARACTER and not self._slashes
            if takes_all or members.has(character) or (folded and members.has(folded)):
                mask |= bit
        if len(self._masks) >= _MAX_MASKS:
            self._masks.clear()
        self._masks[character] = mask
        return mask


def _literal_run(parts: list[_Part]) -> str:
    """Return the literal characters at the beginning of a list of parts."""
    found: list[str] = []
    for part in parts:
        if not isinstance(part, str) or part in (_STAR, _STARS, _FOLDERS):
            break
        found.append(part)
    return "".join(found)


# A literal star differs from the wildcard.
_LITERAL_STAR = _Set(ranges=(("*", "*"),))


def git_pattern(pattern: str, *, lenient: bool = False) -> Wildcards | None:
    """Compile a pattern of git, without a `/` at its ends; None if it matches nothing.

    If `lenient`, an unclosed bracket is a literal character. Raises `PatternTooLong`.
    """
    check_length(pattern)
    parts: list[_Part] = []
    at, end = 0, len(pattern)
    while at < end:
        character = pattern[at]
        begins = at == 0 or pattern[at - 1] == "/"
        if begins and pattern.startswith("**/", at):
            if parts[-1:] != [_FOLDERS]:
                parts.append(_FOLDERS)
            at += 3
        elif begins and pattern[at:] == "**":
            parts += [_NAME_CHARACTER, _STARS]
            at = end
        elif character == "*":
            parts.append(_STAR)
            while at < end and pattern[at] == "*":
                at += 1
        elif character == "?":
            parts.append(_NAME_CHARACTER)
            at += 1
        elif character == "[":
            found = _git_set(pattern, at)
            if found is None:
                if not lenient:
                    return None
                found = "[", at + 1
            part, at = found
            parts.append(part)
        elif character == "\\":
            if at + 1 == end:
                return None
            parts.append(_literal(pattern[at + 1]))
            at += 2
        else:
            parts.append(character)
            at += 1
    return Wildcards(parts)


def _literal(character: str) -> _Part:
    return _LITERAL_STAR if character == _STAR else character


def _git_set(pattern: str, at: int) -> tuple[_Part, int] | None:
    """Return the set that begins here and its end; None if git would match nothing."""
    if pattern.find("]", at) < 0:
        return None
    at += 1
    negated = pattern[at] in "!^"
    at += negated
    ranges: list[tuple[str, str]] = []
    classes: list[frozenset[str]] = []
    previous, is_first = "", True
    while True:
        character = pattern[at : at + 1]
        if not character:
            return None
        if character == "]" and not is_first:
            return _Set(tuple(ranges), tuple(classes), negated), at + 1
        is_first = False
        following = pattern[at + 1 : at + 2]
        if character == "-" and previous and following not in ("", "]"):
            at += 1
            if following == "\\":
                at += 1
                following = pattern[at : at + 1]
                if not following:
                    return None
            ranges.append((previous, following))
            previous = ""
        elif character == "[" and following == ":":
            close = pattern.find("]", at + 2)
            if close < 0:
                return None
            name = pattern[at + 2 : close]
            if name.endswith(":"):
                members = _POSIX_CLASSES.get(name[:-1])
                if members is None:
                    return None
                classes.append(members)
                previous, at = "", close
            else:
                ranges.append(("[", "["))
                previous = "["
        else:
            if character == "\\":
                at += 1
                character = pattern[at : at + 1]
                if not character:
                    return None
            ranges.append((character, character))
            previous = character
        at += 1


@lru_cache(maxsize=1000)
def path_pattern(pattern: str, *, ignore_case: bool = False) -> Wildcards:
    """Compile the pattern of a rule for paths; raise `PatternTooLong`."""
    return Wildcards(_rule_parts(pattern, _path_stars, ignore_case), ignore_case=ignore_case)


@lru_cache(maxsize=1000)
def text_pattern(pattern: str, *, ignore_case: bool = False) -> Wildcards:
    """Compile the pattern of a rule for names; raise `PatternTooLong`."""
    parts = _rule_parts(pattern, _text_stars, ignore_case)
    return Wildcards(parts, ignore_case=ignore_case, slashes=False)


def _path_stars(pattern: str, at: int) -> tuple[str, int]:
    begins = at == 0 or pattern[at - 1] == "/"
    if begins and pattern.startswith("**/", at):
        return _FOLDERS, 3
    if pattern.startswith("**", at):
        return _STARS, 2
    return _STAR, 1


def _text_stars(pattern: str, at: int) -> tuple[str, int]:  # noqa: ARG001  # as the other
    return _STARS, 1


def _rule_parts(
    pattern: str, stars: Callable[[str, int], tuple[str, int]], ignore_case: bool
) -> list[_Part]:
    check_length(pattern)
    if ignore_case:
        pattern = pattern.lower()
    parts: list[_Part] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "*":
            part, length = stars(pattern, at)
            if part != _FOLDERS or parts[-1:] != [_FOLDERS]:
                parts.append(part)
            at += length
        elif character == "?":
            parts.append(_NAME_CHARACTER)
            at += 1
        elif character == "[" and (found := _rule_set(pattern, at)) is not None:
            part, at = found
            parts.append(part)
        else:
            parts.append(character)
            at += 1
    return parts


def _rule_set(pattern: str, at: int) -> tuple[_Set, int] | None:
    """Return the set that begins here and its end; None if the bracket is a character."""
    close = pattern.find("]", at + 1)
    inside = pattern[at + 1 : close]
    negated = inside.startswith("!")
    if close < 0 or "/" in inside or len(inside) == negated:
        return None
    inside = inside[negated:]
    ranges: list[tuple[str, str]] = []
    here = 0
    while here < len(inside):
        is_range = inside[here + 1 : here + 2] == "-" and here + 2 < len(inside)
        ranges.append((inside[here], inside[here + 2] if is_range else inside[here]))
        here += 3 if is_range else 1
    return _Set(tuple(ranges), negated=negated), close + 1


def check_length(pattern: str) -> None:
    """Raise `PatternTooLong` if a pattern is too long."""
    if len(pattern) > MAX_CHARACTERS:
        raise PatternTooLong(
            f"The pattern {pattern[:40]}… has {len(pattern)} characters, more than {MAX_CHARACTERS}"
        )
