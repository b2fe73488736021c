"""Short texts for error messages and output: escaped excerpts, and names that were probably meant.

One table has the characters that can hide text: control characters, those that change the writing
direction, and those without width. All code that shows text of a peer uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except tabs and line ends, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # writing direction
    "\u00ad\u034f\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # no width
    "\u115f\u1160\u3164\uffa0\u17b4\u17b5\u180b-\u180f"  # fillers, Mongolian selectors
    "\u2028\u2029"  # line ends in web pages, but not in terminals
    "\ufe00-\ufe0f\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # selectors, music, tags
    "]"
)
# Some are legitimate after the character that they modify: in joining scripts and in emoji.
_JOINED = "\u0590-\u1cff\ua840-\uabff"
_EMOJI = "\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_USED_AFTER = {
    "\u200c": f"[{_JOINED}]",
    "\u200d": f"[{_JOINED}{_EMOJI}\ufe0f]",
    "\ufe0e": f"[{_EMOJI}#*0-9\xa9\xae]",
    "\ufe0f": f"[{_EMOJI}#*0-9\xa9\xae]",
}
_LINE_ENDS = {ord("\n"): "\\n"}


def excerpt(text: str, max_length: int = 200) -> str:
    """Return a text, shortened to `max_length` characters."""
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def visible(text: str) -> str:
    """Return a text with hiding characters escaped; tabs and line ends stay.

    Lone surrogates, which cannot be encoded, are escaped, too.
    """
    text = _HIDDEN.sub(_spelt, text)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def hidden_removed(text: str) -> str:
    """Return a text without hiding characters; tabs and line ends stay."""
    text = _HIDDEN.sub(_kept, text)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def hidden_replaced(text: str, replace: Callable[[str], str]) -> str:
    """Return a text with every possibly hiding character replaced."""
    return _HIDDEN.sub(lambda match: replace(match[0]), text)


def one_line(text: str, max_length: int = 1000) -> str:
    """Return a text as one line: shortened, with line ends escaped."""
    return visible(excerpt(text, max_length)).translate(_LINE_ENDS)


def _kept(match: re.Match[str]) -> str:
    """Return a character that is legitimate at its place, or an empty text."""
    before = _USED_AFTER.get(match[0])
    at = match.start()
    if not before or not at:
        return ""
    # Compiled when a text first has such a character: it takes long for a program that starts.
    return match[0] if re.compile(before).match(match.string, at - 1) else ""


def _spelt(match: re.Match[str]) -> str:
    if kept := _kept(match):
        return kept
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Escape sequences for colours, titles and so on.
_ESCAPES = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])"


def output_lines(text: str) -> list[str]:
    """Return an output as lines without colours and other escape sequences.

    A line that was overwritten, such as a progress bar, is returned in its last state.
    """
    if "\x1b" in text:
        text = re.sub(_ESCAPES, "", text)
    return [
        hidden_removed(line.rstrip("\r").rpartition("\r")[2]).rstrip()
        for line in text.rstrip().split("\n")
    ]


# Finds the name that a misspelled one was probably meant to be.

_LONGEST = 60  # characters of a name that can be a misspelled one


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name with the fewest typing errors; None if all are too different.

    A typing error is a character too many, too few or wrong, or two that are exchanged. One in
    three characters can be wrong.
    """
    if not 1 < len(name) <= _LONGEST:
        return None
    lower = name.lower()
    best = min(((_errors(lower, one.lower()), one) for one in known), default=None)
    return best[1] if best is not None and best[0] <= max(1, len(name) // 3) else None


def nearest_keyword(name: str, known: Iterable[str]) -> str | None:
    """Return the keyword argument that begins with the name, or else the nearest one."""
    names = sorted(known)
    return next((one for one in names if one.startswith(name)), nearest(name, names))


def _errors(one: str, other: str) -> int:
    """Return the number of typing errors between two names."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, char in enumerate(one, 1):
        now = [row]
        for column, their in enumerate(other, 1):
            costs = [last[column] + 1, now[-1] + 1, last[column - 1] + (char != their)]
            if row > 1 < column and char == other[column - 2] and one[row - 2] == their:
                costs.append(before[column - 2] + 1)
            now.append(min(costs))
        before, last = last, now
    return last[-1]
