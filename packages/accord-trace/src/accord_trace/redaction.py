"""Removes secrets from frames before they are written."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.text.redact import MASK
from accord.text.secret_places import redacted_json, redacted_text

__all__ = ("redacted_frame", "with_possible_secrets")

_LOGINS = frozenset(("authenticate", "auth/login"))
_KEPT = frozenset(("methodId",))
_STRING_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_STRING_PREFIX = re.compile(r'"(?:[^"\\]|\\u[\dA-Fa-f]{4}|\\[^u])*', re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]:,]|[\w.+-]+', re.DOTALL)
_NAME_END = re.compile(rb'"\s*:')  # in strings, too

# How the well-known kinds of keys begin, in lower case: what is searched, and what is true there.
_SHAPES = (
    *((b"sk-", b"sk-"), (b"gh", b"gh[pousr]_"), (b"hub_pat_", b"hub_pat_"), (b"glpat-", b"glpat-")),
    *((b"xox", b"xox[abeoprs]-"), (b"akia", b"akia"), (b"asia", b"asia"), (b"aiza", b"aiza")),
    *((b"hf_", b"hf_"), (b"npm_", b"npm_"), (b"eyj", b"eyj")),
)
# Where secrets can be in a JSON text in lower case: a word that is searched first, in 1 ns for a
# byte, and what is true of its place.
_AFTER = rb"(?:s|_?id|[_-]?\d{1,3})?(?:\\*[\"']|\s*[=:]|\\u003d)"
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)  # up to its last character
_IN_JSON = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        (b"key", rb"key(?:-----|" + _AFTER + rb")"),
        *((word, word + _AFTER) for word in (b"secret", b"passphrase", b"credential")),
        *((word, word + _AFTER) for word in (b"cookie", b"bearer", b"pwd")),
        (b"token", rb"token(?!s\")" + _AFTER),
        (b"passw", rb"passw(?:or)?d" + _AFTER),
        (b"auth", rb"auth(?:orization\b|enticate\"|/login\")"),
        (b"env", rb'"env|env(?:ironment)?"'),
        (b'headers"', rb'headers"'),
        (b'"arg', rb'"arg'),
        *((word, start + rb"[\w-]{10}") for word, start in _SHAPES),
        # Part of a name that is escaped; what escapes control characters is usual.
        (b"\\u00", rb"\\u00[2-7][0-9a-f]"),
        (b" --", rb" --[\w-]{0,32}(?:key|token|secret|pass|cred|pwd|pw |bearer|cookie|auth)"),
        (b"@", rb"/[^\s\"/:]{1,256}(?::[^\s\"/]{0,256})?@"),
        (b"?", rb"\?[^\s\"?]{0,512}?(?:sig|signature|jwt|code|auth|pass|pwd)(?:=|\\u003d)"),
    )
)


def with_possible_secrets(texts: Iterable[bytes | bytearray]) -> set[int]:
    """Return the numbers of the JSON texts that may have something to replace."""
    # One search in many texts takes less time than one in each.
    parts = [_structure(text) for text in texts]
    lower = b"\n".join(parts).lower()
    ends: list[int] = []
    found: set[int] = set()
    for word, pattern in _IN_JSON:
        if word in lower:
            for match in pattern.finditer(lower):
                ends = ends or list(accumulate(len(part) + 1 for part in parts))
                found.add(bisect_right(ends, match.start()))
    return found


def _structure(text: bytes | bytearray) -> bytes | bytearray:
    """Return a JSON text without a spoken text, which is most of the bytes."""
    for start in (b'"text":"', b'"content":"'):
        begin = text.find(start) + len(start)
        if begin >= len(start) and (end := _STRING.match(text, begin)) is not None:
            return text[:begin] + text[end.end() :]
    return text


def redacted_frame(frame: bytes | bytearray) -> bytes | None:
    """Return the frame without secrets, or None if it has none (R-TRACE-05).

    Replaced is what `redacted_json` replaces, and everything in the params of a login except the
    method. Of fields with the same name, the last one stays. A frame that is not JSON is a line
    of text.
    """
    try:
        value = lenient_json.loads(frame)
    except lenient_json.NotJson:
        text = frame.decode("utf-8", "surrogateescape")
        new = redacted_text(_without_hidden_fields(text))
        return None if new == text else new.encode("utf-8", "surrogateescape")
    message = redacted_json(_without_login(value))
    if message is value and not _repeats_names(frame, value):
        return None
    return lenient_json.dumps(message)


def _without_hidden_fields(text: str) -> str:
    """Return text that is not JSON, but the beginning of a message, without secrets of fields."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value = json.loads(completed := _completed(text))  # takes NaN, too
    except (ValueError, RecursionError):
        return text
    message = redacted_json(_without_login(value))
    if message is value and not _repeats_names(completed.encode("utf-8", "replace"), value):
        return text
    return lenient_json.dumps(message)[:-1].decode()  # still no message


def _completed(text: str) -> str:
    """Return a JSON text that was cut with the ends of what is open in it."""
    ends: list[str] = []
    is_name = False  # the last string is one
    last = done = 0
    for match in _TOKEN.finditer(text):
        token, last = match[0], match.start()
        match token[0]:
            case "{":
                ends.append("}")
                is_name = True
            case "[":
                ends.append("]")
                is_name = False
            case "}" | "]":
                del ends[-1:]
            case ",":
                is_name = ends[-1:] == ["}"]
            case ":":
                is_name = False
            case _:
                pass
        done = match.end()
    token = text[last:done]
    if token[:1] == '"' and (len(token) == 1 or not _STRING_TOKEN.fullmatch(token)):
        whole = _STRING_PREFIX.match(token)  # without half an escape
        text = f'{text[:last]}{whole[0] if whole else ""}"'
        token = '""'
    elif token not in ("true", "false", "null") and token[:1].isalpha():
        text, token = f"{text[:last]}null", "null"
    elif token[:1] == "-" or token[-1:] in ".eE+-":
        text, token = f"{text[:last]}0", "0"
    if token[:1] == '"' and is_name:
        text += ":null"
    elif token == ":":
        text += "null"
    elif token == ",":
        text = text[:last]
    return text + "".join(reversed(ends))


def _repeats_names(frame: bytes | bytearray, value: Any) -> bool:
    """Return whether an object has a name twice: the value has only the last of its fields."""
    nodes, names = [value], 0
    for node in nodes:
        if is_object(node):
            names += len(node)
            nodes += node.values()
        elif is_array(node):
            nodes += node
    if len(_NAME_END.findall(frame)) <= names:
        return False
    found = False

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        item = dict(pairs)
        found = found or len(item) < len(pairs)
        return item

    try:
        json.loads(frame.decode("utf-8", "replace"), object_pairs_hook=fields)
    except (ValueError, RecursionError):
        return True  # it cannot be known
    return found


def _without_login(value: Any) -> Any:
    """Return a message without the params of a login; the same object for any other."""
    if is_array(value):
        messages = [_without_login(item) for item in value]
        changed = any(new is not old for new, old in zip(messages, value, strict=True))
        return messages if changed else value
    if not is_object(value) or value.get("method") not in _LOGINS:
        return value
    params = value.get("params")
    if not is_object(params):
        hidden = _hidden(params)
        return {**value, "params": hidden} if hidden is not params else value
    hidden = {
        key: item if key in _KEPT and isinstance(item, str) else _hidden(item)
        for key, item in params.items()
    }
    return {**value, "params": hidden} if hidden != params else value


def _hidden(value: Any) -> Any:
    """Replace a value; an empty text, null and a boolean are not secrets."""
    return value if value is None or isinstance(value, bool) or value in ("", MASK) else MASK
