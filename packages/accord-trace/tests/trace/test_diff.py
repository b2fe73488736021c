"""Differences of recordings."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from accord_trace import Record, open_trace
from accord_trace.diff import differences, shape_differences, value_differences
from sample_recordings import Writer, one_turn


def records(talk: Writer, folder: Path, name: str = "r") -> list[Record]:
    return list(open_trace(talk.save(folder / f"{name}.acp.jsonl")))


def shown(one: list[Record], other: list[Record], *, strict: bool = False) -> list[str]:
    return [f"{item.sign} {item.text}" for item in differences(one, other, strict=strict)]


@given(strict=st.booleans(), version=st.sampled_from([1, 2]))
def test_recording_has_no_difference_to_itself(
    tmp_path_factory: object, strict: bool, version: int
) -> None:
    folder = tmp_path_factory.mktemp("diff")  # type: ignore[attr-defined]  # a factory of pytest
    found = records(one_turn(version), folder)
    assert shown(found, found, strict=strict) == []


def test_ids_times_and_chunks_may_differ(tmp_path: Path) -> None:
    one, other = Writer(), Writer()
    one.update(1.0, sessionUpdate="agent_message_chunk", messageId="a", content={"text": "Hello"})
    for number in range(3):
        other.update(
            2.0 + number, sessionUpdate="agent_message_chunk", messageId="b", content={"text": "He"}
        )
    assert shown(records(one, tmp_path), records(other, tmp_path)) == []


def test_missing_and_added_messages_and_fields_are_shown(tmp_path: Path) -> None:
    one, other = Writer(), Writer()
    one.to_agent(0.0, id=0, method="initialize", params={"protocolVersion": 1, "old": True})
    other.to_agent(0.0, id=0, method="initialize", params={"protocolVersion": "1", "new": 1})
    one.update(1.0, sessionUpdate="plan")
    other.to_client(1.0, id=0, error={"code": 1})
    assert shown(records(one, tmp_path), records(other, tmp_path)) == [
        '~ Client → Agent initialize (message 1): protocolVersion: expected 1, got "1"',
        "~ Client → Agent initialize (message 1): old: expected true, got nothing",
        "~ Client → Agent initialize (message 1): new: expected nothing, got 1",
        "- Agent → Client session/update plan (message 2)",
        "+ Agent → Client error of initialize (message 2)",
    ]


def test_values_are_compared_strictly_if_asked(tmp_path: Path) -> None:
    one, other = Writer(), Writer()
    for talk, title in ((one, "a"), (other, "b\x1b")):
        talk.update(1.0, sessionUpdate="tool_call", toolCallId=title, title=title)
    left, right = records(one, tmp_path), records(other, tmp_path)
    assert shown(left, right) == []
    assert shown(left, right, strict=True) == [
        "~ Agent → Client session/update tool_call (message 1): update.title: "
        'expected "a", got "b\\u001b"'
    ]


def test_messages_have_their_numbers_in_both_recordings(tmp_path: Path) -> None:
    one, other = Writer(), Writer()
    other.update(0.5, sessionUpdate="plan")
    for talk, title in ((one, "a"), (other, None)):
        talk.update(1.0, sessionUpdate="tool_call", title=title)
    assert shown(records(one, tmp_path), records(other, tmp_path)) == [
        "+ Agent → Client session/update plan (message 1)",
        "~ Agent → Client session/update tool_call (messages 1 and 2): update.title: "
        'expected "a", got null',
    ]


def test_long_values_that_begin_alike_are_shown_from_where_they_differ() -> None:
    [found] = value_differences("same " * 30 + "end", "same " * 30 + "x", "text")
    assert str(found) == ('text: expected …same same same same end", got …same same same same x"')


def test_items_are_compared_by_their_names() -> None:
    first = {"commands": [{"name": "a", "input": None}, {"name": "b", "input": {"hint": "x"}}]}
    second = {"commands": [{"name": "new"}, {"name": "b", "input": None}, {"name": "a"}]}
    assert list(map(str, shape_differences(first, second, strict=False))) == [
        'commands["a"].input: expected null, got nothing',
        'commands["b"].input: expected {"hint":"x"}, got null',
    ]
    assert str(next(shape_differences(first, second, strict=True))).startswith("commands[0].name")


def test_another_type_is_one_difference() -> None:
    first = {"content": [{"type": "diff", "path": "a", "newText": "b"}]}
    second = {"content": [{"type": "content", "content": {"type": "text", "text": "a"}}]}
    assert list(map(str, shape_differences(first, second, strict=False))) == [
        'content[0].type: expected "diff", got "content"'
    ]
