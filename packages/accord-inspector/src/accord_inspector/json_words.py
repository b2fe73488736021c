"""The words of JSON for types: the page is read by developers of any language."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final[dict[str, str]] = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "array": "array",
    "dict": "object",
    "object": "object",
    "None": "null",
    "null": "null",
}
_QUOTED = re.compile(r"`((?:\w+)(?: \| \w+)*)`")


def json_words(text: str) -> str:
    """Return a text of an error with JSON's names of types: ``Expected string, got integer``."""
    return _QUOTED.sub(_renamed, text)


def _renamed(found: re.Match[str]) -> str:
    names = found[1].split(" | ")
    if not all(name in _WORDS for name in names):
        return found[0]
    return " or ".join(_WORDS[name] for name in names)
