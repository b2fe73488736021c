"""Compares two recordings by the shape of their messages, or strictly.

First the values of two messages: canonical params, and what is different where. `replay` uses it,
too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any

from msgspec import UNSET, Struct

from accord.text import lenient_json
from accord.text.excerpt import one_line
from accord.text.lenient_json import is_array, is_object
from accord.text.redact import MASK
from accord.text.secrets import is_masked
from accord.types.steering import OUTCOMES
from accord_trace.records import Pairing, Record, is_damaged

# Compares the values of two messages: canonical params, and what is different where.

_SHOWN = 60
_BEFORE = 20  # characters that are equal, before those that are not
# Ids that one side makes up. Others, such as `optionId` and `modeId`, have a meaning.
_IDS = frozenset(("terminalId", "toolCallId", "messageId", "elicitationId", "connectionId"))
# What describes a client, in either version, or differs each time.
_LEFT_OUT = frozenset(
    ("_meta", "clientInfo", "clientCapabilities", "info", "capabilities", "messageId")
)
# Times and ids, which differ between two runs of the same conversation.
_RUN = frozenset(("requestId", "updatedAt", "createdAt", "timestamp", "modifiedAt"))
# What names the items of a list.
_NAMES = ("id", "optionId", "modelId", "value", "name")
# Their contents are a program's own: by shape, only their type is compared.
_OPAQUE = frozenset(("_meta", "rawInput", "rawOutput", "data"))


class ValueDifference(Struct, frozen=True):
    """What is different at a path, such as `prompt[0].text`; texts for people."""

    path: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, got {self.got}"


def id_kind(key: str) -> str | None:
    """Return the kind of the made-up id that a field has; None for other fields."""
    if key.lower().endswith("sessionid"):
        return "sessionId"
    return key if key in _IDS else None


def canonical(value: Any) -> Any:
    """Return params without what does not matter: nulls, empty lists, and the client's name."""
    if is_object(value):
        items = ((key, canonical(item)) for key, item in value.items() if key not in _LEFT_OUT)
        return {key: item for key, item in items if item is not None and item not in ([], {})}
    if is_array(value):
        return [canonical(item) for item in value]
    return value


def value_differences(expected: Any, got: Any, path: str = "") -> Iterator[ValueDifference]:
    """Yield where values are different; what was redacted equals every value."""
    if expected == MASK:
        return
    if is_object(expected) and is_object(got):
        for key in (*expected, *(key for key in got if key not in expected)):
            inner = f"{path}.{one_line(key, _SHOWN)}" if path else one_line(key, _SHOWN)
            if key not in got:
                yield ValueDifference(inner, short_json(expected[key]), "nothing")
            elif key not in expected:
                yield ValueDifference(inner, "nothing", short_json(got[key]))
            else:
                yield from value_differences(expected[key], got[key], inner)
    elif is_array(expected) and is_array(got):
        for number, (old, new) in enumerate(zip(expected, got, strict=False)):
            yield from value_differences(old, new, f"{path}[{number}]")
        if len(expected) != len(got):
            yield ValueDifference(path or "value", _items(expected), _items(got))
    elif isinstance(expected, str) and is_masked(expected):
        return  # such as NAME=[redacted]
    elif expected != got or isinstance(expected, bool) is not isinstance(got, bool):
        yield _different(expected, got, path)


def shape_differences(
    expected: Any, got: Any, *, strict: bool, path: str = ""
) -> Iterator[ValueDifference]:
    """Yield where two messages of an agent are different.

    By shape, they have the same keys, and values of the same types; a stop reason, the kind of an
    update, the status of a tool call and the code of an error are the same. Items of lists that
    have names, such as commands, are compared with those of the same name. With `strict` every
    value is the same, except ids and times.
    """
    if expected == MASK:
        return
    if is_object(expected) and is_object(got):
        if not strict and isinstance(kind := expected.get("type"), str):
            other = got.get("type", kind)
            if other != kind:  # then the other fields differ, too
                inner = f"{path}.type" if path else "type"
                yield from value_differences(kind, other, inner)
                return
        for key in (*expected, *(key for key in got if key not in expected)):
            if key in _RUN or (id_kind(key) is not None and key in expected and key in got):
                continue
            if not strict and key == "_meta":
                continue
            inner = f"{path}.{one_line(key, _SHOWN)}" if path else one_line(key, _SHOWN)
            if key not in got:
                yield ValueDifference(inner, short_json(expected[key]), "nothing")
            elif key not in expected:
                yield ValueDifference(inner, "nothing", short_json(got[key]))
            elif not strict and key in _OPAQUE:
                yield from _types(expected[key], got[key], inner)
            elif not strict and (key in _SAME or _is_steering_outcome(key, expected[key])):
                yield from value_differences(expected[key], got[key], inner)
            else:
                yield from shape_differences(expected[key], got[key], strict=strict, path=inner)
    elif is_array(expected) and is_array(got):
        named = {} if strict else _named_pairs(expected, got)
        pairs = named or dict(enumerate(zip(expected, got, strict=False)))
        for place, (old, new) in pairs.items():
            inner = f"{path}[{place}]"
            yield from shape_differences(old, new, strict=strict, path=inner)
        if strict and len(expected) != len(got):
            yield ValueDifference(path or "value", _items(expected), _items(got))
    elif strict:
        yield from value_differences(expected, got, path)
    else:
        yield from _types(expected, got, path)


_SAME = frozenset(
    ("stopReason", "sessionUpdate", "status", "state", "protocolVersion", "kind", "type", "code")
)


def _is_steering_outcome(key: str, value: Any) -> bool:
    """Return whether a field says what the agent did with a message during a turn."""
    return key == "outcome" and value in OUTCOMES


def _named_pairs(expected: list[Any], got: list[Any]) -> dict[str | int, tuple[Any, Any]]:
    """Return the items that both lists have by name, such as commands; their order may differ."""
    for key in _NAMES:
        old, new = _by_name(expected, key), _by_name(got, key)
        if common := [name for name in old if name in new]:
            return {short_json(name): (old[name], new[name]) for name in common}
    return {}


def _by_name(items: list[Any], key: str) -> dict[str, Any]:
    """Return the items by their names; nothing if one has none, or two have the same."""
    names = [item.get(key) if is_object(item) else None for item in items]
    found = {name: item for name, item in zip(names, items, strict=True) if isinstance(name, str)}
    return found if len(found) == len(items) else {}


def _types(expected: Any, got: Any, path: str) -> Iterator[ValueDifference]:
    if _type(expected) != _type(got):
        yield _different(expected, got, path)


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _items(value: list[Any]) -> str:
    return f"{len(value)} item{'' if len(value) == 1 else 's'}"


def _different(expected: Any, got: Any, path: str) -> ValueDifference:
    """Return the difference of two values; long ones that begin alike, from where they differ."""
    old, new = short_json(expected), short_json(got)
    if old == new:
        old, new = json_text(expected), json_text(got)
        pairs = enumerate(zip(old, new, strict=False))
        at = next((number for number, (one, other) in pairs if one != other), 0)
        old, new = (f"…{one_line(text[max(at - _BEFORE, 0) :], _SHOWN)}" for text in (old, new))
    return ValueDifference(path or "value", old, new)


def short_json(value: Any) -> str:
    """Return a value as JSON for people, in a line that is not too long."""
    return one_line(json_text(value), _SHOWN)


def json_text(value: Any) -> str:
    """Return a value as JSON for people."""
    return lenient_json.dumps(value).decode("utf-8", "replace")


class Difference(Struct, frozen=True):
    """What is different: text for people. `sign` is `-` (only first), `+` (only second) or `~`."""

    sign: str
    text: str


class _Message(Struct, frozen=True):
    number: int  # in its recording
    label: str  # what is compared to align the recordings
    value: Any


def differences(
    first: Iterable[Record], second: Iterable[Record], *, strict: bool = False
) -> Iterator[Difference]:
    """Yield the differences of two recordings, in order; both are held in memory.

    Messages are aligned by direction, method and kind of update; consecutive chunks of a message
    are joined. Values are compared as `accord trace replay` compares them: without `strict` by
    shape, so that texts and numbers may differ, with it all values except ids and times.
    """
    left, right = list(_messages(first)), list(_messages(second))
    matcher = SequenceMatcher(
        None, [one.label for one in left], [one.label for one in right], autojunk=False
    )
    for operation, left_at, left_end, right_at, right_end in matcher.get_opcodes():
        if operation == "equal":
            pairs = zip(left[left_at:left_end], right[right_at:right_end], strict=True)
            for one, other in pairs:
                where = _where(one.number, other.number)
                for found in shape_differences(one.value, other.value, strict=strict):
                    yield Difference("~", f"{one.label} {where}: {found}")
        else:
            for one in left[left_at:left_end]:
                yield Difference("-", f"{one.label} {_where(one.number)}")
            for one in right[right_at:right_end]:
                yield Difference("+", f"{one.label} {_where(one.number)}")


def _where(*numbers: int) -> str:
    different = " and ".join(map(str, dict.fromkeys(numbers)))
    return f"(messages {different})" if " " in different else f"(message {different})"


def _messages(records: Iterable[Record]) -> Iterator[_Message]:
    pairing = Pairing()
    previous = ""
    for number, record in enumerate(records, 1):
        if is_damaged(record):
            continue
        answered = pairing.add(record)
        if record.type == "end":
            continue
        value = record.value()
        label = f"{record.sender} → {record.receiver} {_name(record, value, answered)}"
        if label == previous and "_chunk" in label:
            continue
        previous = label
        yield _Message(number, one_line(label, 120), value)


def _name(record: Record, value: Any, answered: Any) -> str:
    if record.type == "response":
        method = "" if answered is None else answered.method
        return f"{'error' if record.is_error else 'result'} of {method}"
    if record.type == "invalid":
        return "not a message"
    method = "" if record.method is UNSET else record.method
    update = value.get("update") if is_object(value) else None
    if method == "session/update" and is_object(update):
        return f"{method} {update.get('sessionUpdate')}"
    return method
