"""Compares what an agent sent in a recording with what it sends now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from math import inf
from typing import Any, Literal, TypeAlias

from msgspec import Struct, to_builtins

from accord.text.excerpt import one_line
from accord.text.lenient_json import is_array, is_object
from accord_trace.diff import id_kind, shape_differences, short_json
from accord_trace.replay.script import Step

# They show the state of a session, and can come at any place: only the last of each counts.
_UNORDERED = frozenset(
    (
        "available_commands_update",
        "config_option_update",
        "config_options_update",
        "current_mode_update",
        "session_info_update",
        "usage_update",
    )
)
_NOTICE = "session/update notice"  # of no turn: only the order among themselves counts
# Whether an agent withdraws a request depends on what comes first, the answer or the cancel.
_WITHDRAWN = "$/cancel_request"
_TEXTS = ("text", "data", "output")  # of chunks, to be joined


class AgentMessage(Struct, frozen=True, kw_only=True):
    """A message of the agent: `session` and `value` are those of the recording.

    `label` names what it is, such as `session/update tool_call`. `number` counts the messages of
    the recording, or those that came. `request` is the number of the request of a response.
    """

    number: int
    session: str | None
    label: str
    value: Any
    request: int | None = None

    @property
    def place(self) -> str | int | None:
        """What pairs messages that may come at any place; None for those with an order.

        Responses may, except the one that ends a turn of version 1.
        """
        if self.request is not None:
            ends_turn = self.label.endswith(" to session/prompt") and _is_end(self.value)
            return None if ends_turn else self.request
        kind = self.label.removeprefix("session/update ")
        return kind if kind in _UNORDERED else None


class Difference(Struct, frozen=True, kw_only=True):
    """One difference; texts for people.

    `missing`: the message did not come. `extra`: it is not recorded. `changed`: a value is
    different. `stopped`: the replay could not continue.
    """

    kind: Literal["missing", "extra", "changed", "stopped"]
    method: str
    message: int | None = None  # of the recording
    session: str | None = None
    path: str = ""
    expected: str = ""
    got: str = ""

    def __str__(self) -> str:
        place = "" if self.message is None else f" (message {self.message})"
        if self.kind == "missing":
            return f"- {self.method}{place}: did not come"
        if self.kind == "extra":
            return f"+ {self.method}: is not recorded{self.got and f': {self.got}'}"
        if self.kind == "stopped":
            return f"! {self.method}{place}: expected {self.expected}, got {self.got}"
        return f"~ {self.method}{place}: {self.path}: expected {self.expected}, got {self.got}"

    def to_json(self) -> dict[str, Any]:
        """Return the difference as builtin values."""
        return to_builtins(self)


def label_of(kind: str, method: str, value: Any, *, is_error: bool = False) -> str:
    """Return the label of a message."""
    if kind == "response":
        return f"{'error' if is_error else 'response'} to {one_line(method, 80)}"
    update = value.get("update") if is_object(value) else None
    if method == "session/update" and is_object(update):
        state = update.get("state")  # of version 2
        words = (method, update.get("sessionUpdate"), *([state] if isinstance(state, str) else []))
        return one_line(" ".join(map(str, words)), 120)
    return one_line(method, 80)


def recorded_message(step: Step) -> AgentMessage:
    """Return the message of a step of the agent."""
    session = step.request.session if step.request is not None else step.session
    value = step.value()
    label = label_of(step.kind, step.method, value, is_error=step.is_error)
    request = None if step.request is None else step.request.number
    return AgentMessage(
        number=step.number, session=session, label=label, value=value, request=request
    )


def compare(
    expected: Sequence[AgentMessage], got: Sequence[AgentMessage], *, strict: bool
) -> Iterator[Difference]:
    """Yield the differences in the order of the recording.

    In each session, the same kinds of messages come in the same order; notices may come anywhere.
    Consecutive chunks of a message are one, and so are consecutive updates of a tool call that do
    not change its status. Without `strict` the values of messages are compared by shape, otherwise
    all of them except ids and times.
    """
    expected = [one for one in expected if one.label != _WITHDRAWN]
    got = [one for one in got if one.label != _WITHDRAWN]
    found = list(_other_answers(expected, got))
    answered = {(one.session, one.request) for one, _, _ in found}
    expected = [one for one in expected if (one.session, one.request) not in answered]
    got = [one for one in got if (one.session, one.request) not in answered]
    placed: list[_Placed] = [(one.number, _got(one, other, key)) for one, other, key in found]
    for session in dict.fromkeys(one.session for one in (*expected, *got)):
        old = [one for one in expected if one.session == session]
        new = [one for one in got if one.session == session]
        for notices in (False, True):
            lanes = (
                _joined([one for one in side if one.place is None and _is_notice(one) == notices])
                for side in (old, new)
            )
            placed += _compare_ordered(*lanes, strict=strict)
        placed += _compare_unordered(old, new, strict)
    placed.sort(key=lambda item: item[0])
    yield from (difference for _, difference in placed)


# A difference, and where it is among the messages of the recording.
_Placed: TypeAlias = tuple[float, Difference]


def _other_answers(
    expected: Sequence[AgentMessage], got: Sequence[AgentMessage]
) -> Iterator[tuple[AgentMessage, AgentMessage, str]]:
    """Yield the responses that are now errors and the other way round, with what each is now."""
    answers = {(one.session, one.request): one for one in got}
    for one in expected:
        other = None if one.request is None else answers.get((one.session, one.request))
        if other is not None and other.label != one.label:
            yield one, other, "error" if other.label.startswith("error ") else "result"


def _got(old: AgentMessage, new: AgentMessage, key: str) -> Difference:
    return Difference(
        kind="changed",
        method=old.label,
        message=old.number,
        session=old.session,
        path=key,
        expected="nothing",
        got=short_json(new.value),
    )


def _compare_ordered(
    old: list[AgentMessage], new: list[AgentMessage], *, strict: bool
) -> Iterator[_Placed]:
    matcher = SequenceMatcher(
        None, [one.label for one in old], [one.label for one in new], autojunk=False
    )
    for operation, start, end, new_start, new_end in matcher.get_opcodes():
        if operation == "equal":
            for one, other in zip(old[start:end], new[new_start:new_end], strict=True):
                yield from _changed(one, other, strict)
        else:
            yield from map(_missing, old[start:end])
            place = old[end - 1].number + 0.5 if end else 0.0
            yield from ((place, _extra(one)) for one in new[new_start:new_end])


def _compare_unordered(
    old: list[AgentMessage], new: list[AgentMessage], strict: bool
) -> Iterator[_Placed]:
    before = {(one.place, one.label): one for one in old if one.place is not None}
    after = {(one.place, one.label): one for one in new if one.place is not None}
    for place, one in before.items():
        if place in after:
            yield from _changed(one, after[place], strict)
        else:
            yield _missing(one)
    yield from ((inf, _extra(one)) for place, one in after.items() if place not in before)


def _changed(old: AgentMessage, new: AgentMessage, strict: bool) -> Iterator[_Placed]:
    for found in shape_differences(old.value, new.value, strict=strict):
        difference = Difference(
            kind="changed",
            method=old.label,
            message=old.number,
            session=old.session,
            path=found.path,
            expected=found.expected,
            got=found.got,
        )
        yield old.number, difference


def _missing(one: AgentMessage) -> _Placed:
    found = Difference(kind="missing", method=one.label, message=one.number, session=one.session)
    return one.number, found


def _extra(one: AgentMessage) -> Difference:
    content = _update_of(one) or one.value
    if is_object(content):
        content = {key: content[key] for key in content if not _says_nothing(key)}
    return Difference(
        kind="extra",
        method=one.label,
        session=one.session,
        got=short_json(content) if content else "",
    )


def _says_nothing(key: str) -> bool:
    """Return whether a field tells nothing to a person who searches for a message."""
    return key in ("sessionUpdate", "_meta") or id_kind(key) is not None


def _is_notice(one: AgentMessage) -> bool:
    return one.label == _NOTICE


def _is_end(result: Any) -> bool:
    return is_object(result) and ("stopReason" in result or "code" in result)


def _joined(messages: list[AgentMessage]) -> list[AgentMessage]:
    """Return the messages with those joined that an agent may split in any way."""
    found: list[AgentMessage] = []
    for one in messages:
        previous = found[-1] if found else None
        if previous is not None and previous.label == one.label:
            value = _together(_update_of(previous), _update_of(one))
            if value is not None:
                params = {**one.value, "update": value}
                found[-1] = AgentMessage(
                    number=previous.number, session=one.session, label=one.label, value=params
                )
                continue
        found.append(one)
    return found


def _update_of(one: AgentMessage) -> dict[str, Any]:
    update = one.value.get("update") if is_object(one.value) else None
    return update if is_object(update) else {}


def _together(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any] | None:
    """Return one update for two; None if they are not parts of the same."""
    kind = second.get("sessionUpdate")
    if not isinstance(kind, str):
        return None
    if kind.endswith("_chunk") and _owner(first) == _owner(second):
        return _joined_chunk(first, second)
    is_same = kind == "tool_call_update" and first.get("toolCallId") == second.get("toolCallId")
    if is_same and ("status" not in second or first.get("status") == second.get("status")):
        return {**first, **second}
    return None


def _owner(update: dict[str, Any]) -> tuple[Any, ...]:
    keys = ("messageId", "toolCallId", "terminalId")
    content = update.get("content")
    kind = content.get("type") if is_object(content) else None
    return (kind, *(update.get(key) for key in keys))


def _joined_chunk(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    joined = {**first, **second}
    for key in (*_TEXTS, "content"):
        old, new = first.get(key), second.get(key)
        if isinstance(old, str) and isinstance(new, str):
            joined[key] = old + new
        elif key == "content" and is_object(old) and is_object(new):
            joined[key] = _joined_chunk(old, new)
        elif key == "content" and is_array(old) and is_array(new):
            joined[key] = [*old, *new]
    return joined
