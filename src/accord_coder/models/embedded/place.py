"""What of a prompt means a file or a folder: paths, mentions, `this file`, `it`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from accord_coder.models.embedded.words import Word

__all__ = ("Place", "looks_like_path", "paths_at", "place_of")


class Place(Struct, frozen=True):
    """A path as it was said, or a word that stands for one until `refers` is resolved.

    `sure` says that it can be nothing but a path; `first` and `last` are lines.
    """

    path: str
    sure: bool = False
    refers: Literal["", "this", "it", "here"] = ""
    attached: int | None = None
    first: int | None = None
    last: int | None = None


# Bare words that are grammar, never a path.
_NO_PATH = frozenset(
    "a all an and any as at by each every everything everywhere file files folder folders for from"
    " i if in inside into is it its lines me my no not nothing of on one or our some something"
    " than that the them then there these they this those to us we what where which with within"
    " without words you your directory directories except but only old unused whatever anything"
    " occurrence occurrences line word code project".split()
)
_PATH = re.compile(r"~?[\w./\\@+\-\[\](){}=,%#:*?!$&]+")
_LINES = re.compile(r"(.+?)(?::|#L?)(\d{1,9})(?:(?:-|:|-L)(\d{1,9}))?")
_REFERENCES: tuple[tuple[tuple[str, ...], str], ...] = tuple(
    (tuple(words.split()), meaning)
    for meaning, phrases in {
        "this": (
            "this attached file|this linked file|this file|this|the attached file|"
            "the linked file|the attachment|attached file|these files|these|the attached files|"
            "this document|this module|this script|this resource|the selection|this selection"
        ),
        "it": "that file|the same file|the file|it|its|them|that|the result|same file|those files",
        "here": (
            "this folder|this directory|this project|this repository|this repo|this workspace|"
            "the current directory|the current folder|current directory|current folder|"
            "the working directory|working directory|the project|the repository|the repo|"
            "the workspace|the codebase|this codebase|the whole project|whole project|"
            "the entire project|entire project|all files|every file|all the files|project|"
            "repository|repo|workspace|codebase|here|everywhere|my project|our project|"
            "the code|my code|this code base|the root|the project root|the sources"
        ),
    }.items()
    for words in phrases.split("|")
    for phrases in [words]
)


def looks_like_path(text: str) -> bool:
    """Return whether a bare word is more a path than a word of English."""
    if not _PATH.fullmatch(text) or "://" in text:
        return False
    return (
        "/" in text
        or "\\" in text
        or text in (".", "..")
        or bool(re.search(r"\.\w", text))
        or text.startswith(("~", "."))
        or text in ("Makefile", "Dockerfile", "LICENSE", "README", "CHANGELOG", "Justfile")
    )


def place_of(text: str, *, sure: bool) -> Place:
    """Return the place that a path means, with the lines after a colon."""
    if (found := _LINES.fullmatch(text)) is not None:
        path, first, last = found.groups()
        if path.strip() and not path.endswith(":"):
            until = int(last or first)
            return Place(path, sure, first=int(first), last=max(until, int(first)))
    return Place(text, sure)


def paths_at(words: Sequence[Word], at: int) -> Iterator[tuple[int, Place]]:
    """Yield what stands here and may mean a path, with where it ends; the longest first."""
    lows = tuple(word.low for word in words[at : at + 4])
    for phrase, meaning in _REFERENCES:
        if lows[: len(phrase)] == phrase:
            refers: Literal["this", "it", "here"] = meaning  # type: ignore[assignment]
            path = "." if meaning == "here" else ""
            yield at + len(phrase), Place(path, refers == "here", refers)
    if at >= len(words):
        return
    word = words[at]
    match word.kind:
        case "attached":
            yield at + 1, Place("", sure=True, attached=word.start)
        case "quoted" | "path":
            text = word.text.strip()
            if text and "\n" not in text and len(text) < 1000:
                yield at + 1, place_of(text, sure=True)
        case "word":
            if looks_like_path(word.text):
                yield at + 1, place_of(word.text, sure=True)
            elif word.low not in _NO_PATH and _PATH.fullmatch(word.text):
                yield at + 1, place_of(word.text, sure=False)
        case _:
            return
