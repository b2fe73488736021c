"""Removes secrets from frames before they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from accord.text import lenient_json
from accord.text.lenient_json import is_array, is_object
from accord.text.redact import MASK
from accord.text.secrets import KEYS, redacted_json, redacted_text

_LOGINS = frozenset(("authenticate", "auth/login"))
_KEPT = frozenset(("methodId",))
_STRING_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_STRING_PREFIX = re.compile(r'"(?:[^"\\]|\\u[\dA-Fa-f]{4}|\\[^u])*', re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]:,]|[\w.+-]+', re.DOTALL)
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)  # up to its last character
_NAME_END = re.compile(rb'"\s*:')  # in strings, too

_OPTION = (
    rb"-(?:(?:(?<![^\s\"'`\x80-\xff]-)|(?<=\\[bfnrt]-)|(?<=\\u[\da-f]{4}-))[akptuw]|(?<=\"-)h"
    rb"|-(?:proxy-)?user"
    # From the beginning of a word: long ones are looked at once.
    rb"|(?:(?<![\w.-]-)|(?<=\\[bfnrt]-)|(?<=\\u[\da-f]{4}-))[\w.-]{0,128}"
    rb"(?:key|token|secret|pass|credential|cookie|bearer|auth|jwt|header|(?:pwd?|pin|pat)(?![a-z])))"
)
_USER_IN_URL = rb"://[^\s\"/]+@"
_HOOK = rb"hook(?:s\.(?:slack|zapier)|\.office|\.[\w.]{0,64}make|(?<=/webhook)s?(?:-test)?/)"
# What can follow the word in a name: digits at its end, and anything in names of variables.
_NAME_TAIL = rb"s?(?:[_.%-]*id)?[.%-]*+(?:[_\d][\w.%-]{0,128}+)?"
_SPACE = rb"(?:\s|\\[fnrt])*+"


def _places(
    is_name: bytes, key: bytes = rb"key(?:-----|%b)", auth: bytes = b""
) -> tuple[tuple[bytes, re.Pattern[bytes]], ...]:
    """Return where secrets can be in a JSON text in lower case, if this follows their names.

    A place is a word that is searched first, in 1 ns for a byte, and what is true where it occurs.
    """
    name = _NAME_TAIL + is_name
    auth = auth or name
    places = (
        (b"key", key % name),
        *((word, word + name) for word in (b"secret", b"credential", b"cookie", b"jwt")),
        *((word, word + rb"[_.%-]*\d*" + is_name) for word in (b"pat", b"pin")),
        (b"pw", rb"pwd?(?:(?<=d)[_\d][\w.%-]{0,128}+)?" + is_name),
        (b"pass", rb"pass(?:(?:w(?:or)?d|phrase|code)" + name + rb"|" + is_name + rb")"),
        (b"token", rb"token(?!(?:s|_count|_limit|_type)\")" + name),
        (b"bearer", rb"bearer(?:\s|\\[fnrtu]|[\x80-\xff]|" + name + rb")"),
        (b"auth", rb"auth(?:orization(?![a-z])|" + auth + rb"|(?<=\"auth)(?:enticate|/login)\")"),
        (b"env", rb"env(?:(?<=\"env)\w*|(?:ironment)?)" + is_name),
        (b"headers", rb"headers" + is_name),
        (b"-", _OPTION),
        (b"://", _USER_IN_URL),
        (b"hook", _HOOK),
        (b"/bot", rb"/bot\d"),
        (b"=", rb"=(?:(?<=sig=)|(?<=signature=)|(?<=code=))"),
        # Part of a name that is escaped; what escapes control characters is usual.
        (b"\\u00", rb"\\u00[2-7][0-9a-f]"),
    )
    return tuple((word, re.compile(pattern)) for word, pattern in places)


_EXACT = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        (b"TOKENS", rb"TOKENS\d*\\*[\"']|TOKENS" + _SPACE + rb"[=:]"),
        (b"KEY", rb"(?<![A-Za-z])KEYS?\d*(?:\\*[\"'])?" + _SPACE + rb"[=:]"),
        (
            b"://",
            rb"://[^\s\"/]+(?:/[^\s\"/\\:]*)*?/(?=[\w-]*\d)(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{24}",
        ),
    )
)
"""Places that depend on the case."""
# A field or item without any of these has no secret, whatever is next to it.
_IN_PART = _places(rb"(?:\\*[\"']|" + _SPACE + rb"[=:])")
# The same for a whole message, where a name is that of a field, or `_NAME` is next to a `value`.
_IN_FRAME = _places(
    rb"(?:\\*[\"']\s*(?:=|:(?!\s*(?:null|true|false|\[\s*\]|\{\s*\})))|" + _SPACE + rb"[=:])",
    rb"key(?:(?<=[\w.%%?&;#-]key)%b|s?[_\d][\w.%%-]{0,128}+" + _SPACE + rb"[=:]"
    rb"|s?(?:[_\d][\w.%%-]{0,128}+)?\\*[\"']\s*[=:]|=(?=[^\s\"]{0,256}\d)|-----)",
    rb"(?:\\*[\"']\s*:\s*\\*[\"']|" + _SPACE + rb"[=:])",
)
_VALUE = re.compile(rb"value\\*\"\s*:")
_NAME = re.compile(rb"(?:name|key|header|variable|configid)\\*\"\s*:\s*\\*\"([^\s\"/:\\]++)\\*\"")
_WORD = re.compile(rb"key|token|secret|credential|cookie|jwt|pat|pin|pwd?|pass|bearer|auth")
# A letter or digit before it can be part of an escape.
_KEY = re.compile(
    rb"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4}))(?:"
    + "|".join(KEYS).encode()
    + rb")"
)
# Characters of keys, of which each has 13 or more in a row.
_KEY_CHARACTERS = bytes(
    ord("a") if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in "_-.") else 32
    for byte in range(256)
)
_RUN = b"a" * 13

_BETWEEN = b',"'
_QUOTE = ord('"')
_ESCAPED_SLASH = re.compile(rb"\\/")

_LARGE = 1000  # bytes of a frame; more are mostly a text that is spoken
_SHORT = 100  # bytes; longer parts seldom occur again
_MAX_KNOWN = 10_000
_known: set[bytes] = set()  # parts that have no secret


def with_possible_secrets(texts: Sequence[bytes | bytearray]) -> set[int]:
    """Return the numbers of the JSON texts that may have something to replace.

    Most fields have occurred in an earlier text with the same value: only others are searched.
    """
    if len(texts) == 1:
        joined = bytes(_structure(texts[0]))
    else:
        joined = _BETWEEN.join([_structure(text) for text in texts])
    parts = set(joined.split(_BETWEEN)).difference(_known)
    if not parts:
        return set()
    found: set[int] = set()
    if suspicious := _suspicious(b',"%b,"' % _BETWEEN.join(parts)):
        parts -= suspicious
        for number, text in enumerate(texts):
            for part in suspicious:
                if part in text:
                    if _is_suspicious(bytes(_structure(text))):
                        found.add(number)
                    break
    if len(_known) > _MAX_KNOWN:
        _known.clear()
    _known.update([part for part in parts if len(part) <= _SHORT])
    return found


def _suspicious(text: bytes) -> set[bytes]:
    """Return the parts of a text that may have secrets."""
    lower = text.lower()
    places: list[int] = []
    if b"\\/" in lower:
        places += [match.start() for match in _ESCAPED_SLASH.finditer(lower)]
    for word, pattern in _IN_PART:
        if word in lower:
            places += [match.start() for match in pattern.finditer(lower)]
    for word, pattern in _EXACT:
        if word in text:
            places += [match.start() for match in pattern.finditer(text)]
    places += _keys_in(text)
    parts: set[bytes] = set()
    end = -1
    for place in sorted(places):
        start = place + 1 if text[place] == _QUOTE else place
        if start > end:  # not in the last part
            begin, end = text.rfind(_BETWEEN, 0, start) + 2, text.find(_BETWEEN, start)
            parts.add(text[begin:end])
    return parts


def _is_suspicious(frame: bytes) -> bool:
    """Return whether a JSON text with suspicious parts may have secrets."""
    text = frame.replace(b"\\/", b"/") if b"\\/" in frame else frame
    lower = text.lower()
    if (
        b"value" in lower
        and _VALUE.search(lower) is not None
        and any(_WORD.search(match[1]) for match in _NAME.finditer(lower))
    ):
        return True
    for word, pattern in _IN_FRAME:
        if word in lower and pattern.search(lower) is not None:
            return True
    for word, pattern in _EXACT:
        if word in text and pattern.search(text) is not None:
            return True
    return bool(_keys_in(frame))


def _keys_in(text: bytes) -> list[int]:
    """Return where texts are that have a well-known key."""
    runs = text.translate(_KEY_CHARACTERS) + b" "
    places: list[int] = []
    at = runs.find(_RUN)
    while at >= 0:
        end = runs.find(b" ", at)
        if _KEY.search(text, at, end):
            places.append(at)
        at = runs.find(_RUN, end)
    return places


def _structure(text: bytes | bytearray) -> bytes | bytearray:
    """Return a large JSON text without a spoken text, which is most of its bytes."""
    if len(text) < _LARGE:
        return text
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
