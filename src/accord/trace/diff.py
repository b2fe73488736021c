"""Compares two recordings by the shape of their messages, or strictly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any

from msgspec import UNSET, Struct

from accord.text.excerpt import one_line
from accord.text.lenient_json import is_array, is_object
from accord.trace.pairing import Pairing
from accord.trace.records import Record

__all__ = ("Difference", "differences")

_MAX_TEXT = 80
# Values that differ between two runs of the same conversation.
_OWN = frozenset(("sessionId", "toolCallId", "terminalId", "messageId", "requestId", "updatedAt"))


class Difference(Struct, frozen=True):
    """What is different: text for people. `sign` is `-` (only first), `+` (only second) or `~`."""

    sign: str
    text: str


class _Message(Struct, frozen=True):
    label: str  # what is compared to align the recordings
    value: Any


def differences(
    first: Iterable[Record], second: Iterable[Record], *, strict: bool = False
) -> Iterator[Difference]:
    """Yield the differences of two recordings, in order; both are held in memory.

    Messages are aligned by direction, method and kind of update; consecutive chunks of a message
    are joined. Without `strict`, their values are compared by shape: the same keys with the same
    types, and texts, numbers and ids may differ. With it, values must be equal except for ids and
    times.
    """
    left, right = list(_messages(first)), list(_messages(second))
    matcher = SequenceMatcher(
        None, [one.label for one in left], [one.label for one in right], autojunk=False
    )
    for operation, left_at, left_end, right_at, right_end in matcher.get_opcodes():
        if operation == "equal":
            pairs = zip(left[left_at:left_end], right[right_at:right_end], strict=True)
            for one, other in pairs:
                for text in _compare(one.value, other.value, "", strict):
                    yield Difference("~", f"{one.label}: {text}")
        else:
            for one in left[left_at:left_end]:
                yield Difference("-", one.label)
            for one in right[right_at:right_end]:
                yield Difference("+", one.label)


def _messages(records: Iterable[Record]) -> Iterator[_Message]:
    pairing = Pairing()
    previous = ""
    for record in records:
        answered = pairing.add(record)
        if record.type == "end":
            continue
        value = record.value()
        label = f"{record.sender} → {record.receiver} {_name(record, value, answered)}"
        if label == previous and "_chunk" in label:
            continue
        previous = label
        yield _Message(one_line(label, 120), value)


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


def _compare(one: Any, other: Any, path: str, strict: bool) -> Iterator[str]:
    where = path or "value"
    if is_object(one) and is_object(other):
        for key in sorted(one.keys() | other.keys()):
            inner = f"{path}.{key}" if path else key
            if key not in other:
                yield f"{one_line(inner)} is only in the first: {_shown(one[key])}"
            elif key not in one:
                yield f"{one_line(inner)} is only in the second: {_shown(other[key])}"
            elif key not in _OWN:
                yield from _compare(one[key], other[key], inner, strict)
    elif is_array(one) and is_array(other):
        if strict and len(one) != len(other):
            yield f"{one_line(where)} has {len(one)} items, then {len(other)}"
        for number, (left, right) in enumerate(zip(one, other, strict=False)):
            yield from _compare(left, right, f"{path}[{number}]", strict)
    elif _kind(one) != _kind(other) or (strict and one != other):
        yield f"{one_line(where)} is {_shown(one)}, then {_shown(other)}"


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "number"
    return type(value).__name__


def _shown(value: Any) -> str:
    return one_line(repr(value), _MAX_TEXT)
