"""Mentions of files in a prompt: `@path`, or `@"path with spaces"`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_MENTION = re.compile(r'(?<![\w@])@(?:"([^"\n]+)"|([^\s"@]+))')
_OPEN = re.compile(r'(?<![\w@])@("[^"\n]*|[^\s"@]*)$')


class Mention(Struct, frozen=True):
    """The unfinished mention before the cursor."""

    start: int  # the column of the @
    query: str


def mentions(text: str) -> Iterator[str]:
    """Yield the mentioned paths, each once, without punctuation that ends a sentence."""
    seen: set[str] = set()
    for quoted, plain in _MENTION.findall(text):
        for path in (quoted,) if quoted else (plain, plain.rstrip(".,;:!?)")):
            if path and path not in seen:
                seen.add(path)
                yield path


def mention_before(line: str) -> Mention | None:
    """Return the unfinished mention at the end of a line."""
    found = _OPEN.search(line)
    if found is None:
        return None
    return Mention(found.start(), found[1].removeprefix('"'))


def mention_text(path: str) -> str:
    """Return how a path is mentioned."""
    return f'@"{path}"' if re.search(r'[\s"@]', path) else f"@{path}"
