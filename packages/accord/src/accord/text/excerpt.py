"""Short texts for error messages and output: escaped excerpts, reasons of errors, expected names.

One table has the characters that can hide text: control characters, those that change the writing
direction, and those without width. All code that shows text of a peer uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from msgspec import ValidationError, inspect

from accord.text import lenient_json

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


# Finds the reason of a JSON-RPC error in its `data`, where each peer uses another key.

# In this order. Values of other keys are never shown: they may be secrets.
_KEYS = (
    "details",
    "detail",
    "reason",
    "message",
    "msg",
    "description",
    "error_description",
    "error",
    "errors",
    "_errors",
    "issues",
    "cause",
    "data",
    "method",
    "uri",
)
_MAX_CHARACTERS = 500
_MAX_TEXTS = 3
_MAX_LEVELS = 6
_MAX_ITEMS = 64  # keys and list items that are looked at
_MAX_JSON = 64_000  # characters of a string that is read as JSON


def reason_of(message: str, data: Any) -> str | None:
    """Return the reason in `data` in addition to `message`, as one line, or None."""
    found: list[str] = []
    for text in islice(_texts(data, _MAX_LEVELS), _MAX_ITEMS):
        short = one_line(" ".join(text[:_MAX_JSON].split()), _MAX_CHARACTERS)
        if not short or _is_said(short, message, *found):
            continue
        found = [known for known in found if known not in short]
        found.append(short)
        if len(found) == _MAX_TEXTS:
            break
    return one_line("; ".join(found), _MAX_CHARACTERS) or None


def _is_said(text: str, *before: str) -> bool:
    text = text.rstrip(".").casefold()
    return any(text in known.casefold() for known in before)


def _texts(data: Any, levels: int) -> Iterator[str]:
    """Yield the texts that explain an error, the most specific first."""
    if levels == 0:
        return
    if isinstance(data, str):
        yield from _text(data, levels)
    elif lenient_json.is_array(data):
        for item in data[:_MAX_ITEMS]:
            yield from _texts(item, levels - 1)
    elif lenient_json.is_object(data):
        place = _place(data)
        for key in _KEYS:
            for text in _texts(data.get(key), levels - 1):
                yield f"{place}: {text}" if place else text
                place = ""
        yield from _by_field(data, levels - 1)


def _text(text: str, levels: int) -> Iterator[str]:
    """Yield a text; if it is JSON, yield its texts first, as those of a nested error."""
    if text.lstrip()[:1] in ("{", "[") and len(text) <= _MAX_JSON:
        try:
            nested = lenient_json.loads(text.encode("utf-8", "replace"))
        except ValueError:
            pass
        else:
            inner = list(_texts(nested, levels - 1))
            if inner:
                yield from inner
                return
    yield text


def _place(error: dict[str, Any]) -> str:
    """Return the place of a validator's error: `loc` or `path`, a list of names and numbers."""
    path: Any = error.get("loc", error.get("path"))
    if not lenient_json.is_array(path):
        return ""
    return ".".join(str(step) for step in path[:_MAX_ITEMS] if isinstance(step, str | int))


def _by_field(errors: dict[str, Any], levels: int) -> Iterator[str]:
    """Yield a validator's errors by field, if the fields are keys: `{a: {_errors: []}}`."""
    if levels <= 0:
        return
    for key, value in list(errors.items())[:_MAX_ITEMS]:
        if key in _KEYS or not lenient_json.is_object(value):
            continue
        for text in _texts(value.get("_errors"), levels - 1):
            yield f"{key}: {text}"
        for text in _by_field(value, levels - 1):
            yield f"{key}.{text}"


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


# Errors about a value that is not one of a few: they name the expected ones.

_ERROR = re.compile(r"(Invalid enum value .*?)( - at `(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")


def validation_text(error: ValidationError, expected: Any) -> str:
    """Return the text of an error of msgspec; `expected` is the type that was decoded."""
    text = str(error)
    found = _ERROR.fullmatch(text)
    if found is None:
        return text
    values = _values(inspect.type_info(expected), _STEP.findall(found[3] or ""))
    if not values:
        return text
    return f"{found[1]}, expected {' or '.join(map(repr, values))}{found[2] or ''}"


def _values(kind: inspect.Type, path: list[str]) -> list[Any]:
    """Return the values of the type at a path: names of fields, or nothing for an item."""
    match kind:
        case inspect.UnionType(types=types):
            return [value for one in types for value in _values(one, path)]
        case inspect.Metadata(type=inner):
            return _values(inner, path)
        case inspect.LiteralType(values=values) if not path:
            return list(values)
        case inspect.EnumType(cls=cls) if not path:
            return [member.value for member in cls]
        case inspect.StructType(fields=fields) if path:
            inner_types = [field.type for field in fields if field.encode_name == path[0]]
            return [value for one in inner_types for value in _values(one, path[1:])]
        case inspect.DictType(value_type=inner) if path:
            return _values(inner, path[1:])
        case inspect.CollectionType(item_type=inner) if path:
            return _values(inner, path[1:])
        case _:
            return []
