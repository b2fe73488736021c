"""What stands in the gaps of a form: paths, texts, names, numbers, patterns, commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from accord_coder.models.embedded.form import Slot, Slots
from accord_coder.models.embedded.place import Place, looks_like_path, paths_at
from accord_coder.models.embedded.words import Word

__all__ = ("KINDS", "is_bare", "is_prose", "slots_for")

_LONGEST = 60  # bare words in a text
_FEW = 3  # words, where more would be a description
_NAME = re.compile(r"[^\W\d]\w*")
_RANGE = re.compile(r"[Ll]?(\d{1,9})(?:-|–|\.\.|:)[Ll]?(\d{1,9})")
_PROGRAM = re.compile(r"[\w./~\\+-]+")
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
# What may not begin a command in bare words: it would be English, not a command.
_NO_PROGRAM = frozenset(
    "a an and all any at away by command commands every everything for from him her in into it its"
    " me my of off on or out over program script some something that the them then these this"
    " those through to tests test up us whatever what which with your".split()
)
# Programs that no English sentence begins with.
_PROGRAMS = "git npm npx pnpm yarn pytest pip uv cargo docker tox nox ruff mypy pyright".split()
# The names of kinds of files, with the patterns that find them.
KINDS = {
    "c": "*.[ch]",
    "c++": "*.{cc,cpp,cxx,hpp,hh}",
    "css": "*.css",
    "csv": "*.csv",
    "go": "*.go",
    "html": "*.html",
    "java": "*.java",
    "javascript": "*.{js,mjs,cjs,jsx}",
    "js": "*.{js,mjs,cjs,jsx}",
    "json": "*.json",
    "kotlin": "*.kt",
    "markdown": "*.md",
    "python": "*.py",
    "ruby": "*.rb",
    "rust": "*.rs",
    "shell": "*.sh",
    "sql": "*.sql",
    "swift": "*.swift",
    "text": "*.txt",
    "toml": "*.toml",
    "typescript": "*.{ts,tsx}",
    "xml": "*.xml",
    "yaml": "*.{yaml,yml}",
}


def slots_for(source: str) -> Slots:
    """Return the slots for the words of this source; bare texts are taken from it as they stand."""

    def text(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
        if at >= len(words):
            return
        if words[at].kind in ("quoted", "block"):
            yield at + 1, _unfenced(words[at])
            return
        for end in range(at + 1, min(len(words), at + _LONGEST) + 1):
            if words[end - 1].kind in ("block", "attached"):
                return
            yield end, _Bare(source[words[at].start : words[end - 1].end])

    def few(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
        for end, value in text(words, at):
            if end - at <= _FEW:
                yield end, value

    def command(words: Sequence[Word], at: int) -> Iterator[tuple[int, tuple[str, bool]]]:
        """Yield a command and whether it was quoted: then it surely is one."""
        if at >= len(words):
            return
        first = words[at]
        if first.kind in ("quoted", "block"):
            yield at + 1, (_unfenced(first).strip(), True)
            return
        whole = source[first.start : words[-1].end]
        if first.kind == "word" and _PROGRAM.fullmatch(first.text):
            yield len(words), (whole, first.low in ("$", "!"))

    def content(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
        """Yield what goes into a file: of a fence all lines, with the end of the last."""
        if at < len(words) and words[at].kind == "block":
            yield at + 1, words[at].text
        else:
            yield from text(words, at)

    return {
        "place": paths_at,
        "places": _places,
        "file": _file,
        "text": text,
        "content": content,
        "few": few,
        "command": command,
        "fenced": _fenced,
        "empty": _empty,
        "program": _said(*_PROGRAMS),
        "name": _name,
        "number": _number,
        "range": _range,
        "glob": _glob,
        "kind": _kind,
        "url": _url,
        "mark": _mark,
        "more": _marks,
        "anycase": _any_case,
        "files": _said("file", "files", "modules", "of them"),
        "that": _files,
        "quoted": _quoted,
        "block": _block,
        "nothing": _nothing,
        "it": _it,
        "over": _said("overwrite", "rewrite"),
        "filewords": _said("file", "files", "folder", "directory"),
        "rest": _rest,
        "top": _said("top", "beginning", "start", "head"),
    }


class _Bare(str):
    """A text that stood in the prompt without quotes."""

    __slots__ = ()


def is_bare(text: str) -> bool:
    """Return whether a text stood without quotes: it may not be meant to the letter."""
    return isinstance(text, _Bare)


def is_prose(command: str) -> bool:
    """Return whether what should be a command reads like English."""
    first = command.partition(" ")[0].lower()
    return first in _NO_PROGRAM or not _PROGRAM.fullmatch(first)


def _unfenced(word: Word) -> str:
    return word.text.removesuffix("\n") if word.kind == "block" else word.text


def _quoted(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
    if at < len(words) and words[at].kind in ("quoted", "block"):
        yield at + 1, _unfenced(words[at])


def _block(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
    if at < len(words) and words[at].kind == "block":
        yield at + 1, words[at].text


def _fenced(words: Sequence[Word], at: int) -> Iterator[tuple[int, tuple[str, bool]]]:
    """Yield a command in backticks alone."""
    if at < len(words) and words[at].kind in ("quoted", "block"):
        yield at + 1, (_unfenced(words[at]).strip(), True)


def _places(words: Sequence[Word], at: int) -> Iterator[tuple[int, tuple[Place, ...]]]:
    """Yield one place or several: `a, b and c`. The most of them first."""
    found: list[tuple[int, tuple[Place, ...]]] = []
    held: tuple[Place, ...] = ()
    here = at
    while len(held) < 50:
        step = next(iter(paths_at(words, here)), None)
        if step is None:
            break
        here, place = step
        held = (*held, place)
        found.append((here, held))
        between = here
        while between < len(words) and words[between].low in (",", "and", "&"):
            between += 1
        if between == here and not (between < len(words) and words[between].kind == "attached"):
            break
        while between < len(words) and words[between].low in ("the", "file", "also"):
            between += 1
        here = between
    yield from reversed(found)
    if len(found) == 1:
        # A shorter reading of the first: `it` of `it …`.
        for end, place in list(paths_at(words, at))[1:]:
            yield end, (place,)


def _file(words: Sequence[Word], at: int) -> Iterator[tuple[int, Place]]:
    """Yield places that are surely one."""
    for end, place in paths_at(words, at):
        if place.sure or place.refers:
            yield end, place


def _name(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
    if at < len(words) and words[at].kind in ("word", "quoted"):
        name = words[at].text.strip().removesuffix("()")
        if _NAME.fullmatch(name):
            yield at + 1, name


def _number(words: Sequence[Word], at: int) -> Iterator[tuple[int, int]]:
    if at < len(words) and words[at].kind == "word":
        low = words[at].low
        if low.isdecimal() and len(low) < 10:
            yield at + 1, int(low)
        elif low in _NUMBERS:
            yield at + 1, _NUMBERS.index(low)


def _range(words: Sequence[Word], at: int) -> Iterator[tuple[int, tuple[int, int]]]:
    if at < len(words) and (found := _RANGE.fullmatch(words[at].text)) is not None:
        yield at + 1, (int(found[1]), int(found[2]))


def _glob(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
    if at >= len(words):
        return
    word = words[at]
    if word.kind in ("quoted", "path"):
        text = word.text.strip()
        if "\n" not in text and (looks_like_path(text) or "*" in text):
            yield at + 1, text
    elif word.kind == "word" and (looks_like_path(word.text) or "*" in word.text):
        yield at + 1, word.text


def _kind(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
    if at < len(words) and words[at].low in KINDS:
        yield at + 1, KINDS[words[at].low]
    elif at < len(words) and re.fullmatch(r"\.[a-z0-9]+", words[at].low):
        yield at + 1, "*" + words[at].low


def _url(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
    if at < len(words) and re.match(r"https?://\S+", words[at].text):
        yield at + 1, words[at].text


_MARKS = ("todo", "todos", "fixme", "fixmes", "xxx", "hack", "hacks", "todo's")
_ANY_CASE = tuple(
    tuple(phrase.split())
    for phrase in (
        "ignoring case|ignoring the case|ignore case|ignore the case|case insensitive|"
        "case insensitively|case-insensitive|case-insensitively|regardless of case|in any case"
    ).split("|")
)


def _mark(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
    if at < len(words) and words[at].text.lower() in _MARKS:
        yield at + 1, words[at].text


def _marks(words: Sequence[Word], at: int) -> Iterator[tuple[int, bool]]:
    """Yield `, FIXMEs and HACKs`."""
    end = at
    while end < len(words) and words[end].low in (*_MARKS, ",", "and", "or", "/"):
        end += 1
    if end > at and words[end - 1].low in _MARKS:
        yield end, True


def _any_case(words: Sequence[Word], at: int) -> Iterator[tuple[int, bool]]:
    start = at + 1 if at < len(words) and words[at].low in (",", "(") else at
    lows = tuple(word.low for word in words[start : start + 3])
    for phrase in _ANY_CASE:
        if lows[: len(phrase)] == phrase:
            yield start + len(phrase), True


def _said(*choices: str) -> Slot:
    def slot(words: Sequence[Word], at: int) -> Iterator[tuple[int, str]]:
        if at < len(words) and words[at].low in choices:
            yield at + 1, words[at].low

    return slot


def _nothing(words: Sequence[Word], at: int) -> Iterator[tuple[int, bool]]:
    """Yield at once: that the form was this one is what matters."""
    yield min(at, len(words)), True


def _it(words: Sequence[Word], at: int) -> Iterator[tuple[int, Place]]:
    """Yield at once: the file is the one that was spoken of."""
    yield min(at, len(words)), Place("", refers="it")


def _rest(words: Sequence[Word], at: int) -> Iterator[tuple[int, bool]]:
    if at < len(words):
        yield len(words), True


def _empty(words: Sequence[Word], at: int) -> Iterator[tuple[int, tuple[str, bool]]]:
    if at == len(words):
        yield at, ("", False)


def _files(words: Sequence[Word], at: int) -> Iterator[tuple[int, bool]]:
    """Yield at once: files, not lines, are wanted."""
    yield at + (1 if at < len(words) and words[at].low in ("that", "which") else 0), True
