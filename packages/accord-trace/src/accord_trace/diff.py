"""Compares two recordings by the shape of their messages, or strictly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any

from msgspec import UNSET, Struct

from accord.text.excerpt import one_line
from accord.text.lenient_json import is_object
from accord_trace.comparing import shape_differences
from accord_trace.pairing import Pairing
from accord_trace.records import Record, is_damaged


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
