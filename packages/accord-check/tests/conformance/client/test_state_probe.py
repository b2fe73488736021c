"""The reported state of a client: only reported and wrong values are failures."""

from __future__ import annotations

from typing import Any

import pytest

from accord.transports.memory import pair
from accord_conformance.client.state_probe import (
    IS_PRESENT,
    PROBE_METHOD,
    ContainsInOrder,
    EqualsOrEmpty,
    ExpectedState,
    HasExactly,
    HasItem,
    HasLength,
    IsNot,
    StateProbe,
    expect,
    expect_or_absent,
)
from accord_conformance.harness import NotExercised, RawConnection
from conformance.client.driven_client import Json

RULE = "R-TOOL-08"


async def outcome(one: ExpectedState, *shown: Any) -> list[bool]:
    """Return the outcome if a client reports one state and then another."""
    here, there = pair()
    answers = list(shown)
    found: list[bool] = []

    def keep(rule: str, passed: bool, *seen: Any, expected: str = "", got: str = "") -> None:
        found.append(passed)

    def serve(call: Any) -> None:
        assert call.method == PROBE_METHOD
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        peer.respond(call, answer)

    peer = RawConnection(there, "client")
    peer.on_request = serve
    line = RawConnection(here, "agent", answer_s=5.0)
    await _open(line, peer)
    window = StateProbe(line, "s1", keep, 0.0)
    try:
        await window.check([], one)
        if not found:
            with pytest.raises(NotExercised):
                window.require_judged()
    finally:
        await line.aclose()
        await peer.aclose()
    return found


async def _open(*lines: RawConnection) -> None:
    for line in lines:
        await line.open()


def tools(**members: Any) -> Json:
    other = {"toolCallId": "u", "title": "U", "kind": "other", "status": "pending", "content": [{}]}
    return {"toolCalls": [{"toolCallId": "t", **members}, other]}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("A", "A"),
        (None, ""),
        (EqualsOrEmpty("other"), ""),
        (EqualsOrEmpty("other"), "other"),
        (IsNot(("idle",)), {"state": "running"}),
        ("running", {"state": "running"}),
        (ContainsInOrder(("a", "b")), "xaxbx"),
        (IS_PRESENT, {}),
        (HasLength(1), [{"type": "_x"}]),
        (HasExactly({"a": {"b": 1}}), {"a": {"b": 1}}),
        (HasItem("id", "a", "b"), [{"id": "a"}, {"id": "c"}]),
        ([text("A"), text("B")], [text("AB")]),
        ([text("AB")], [text("A"), text(""), text("B")]),
        ([{"path": "/a"}], [{"path": "/a", "line": None}]),
        (5, 5.0),
    ],
)
async def test_correct_state_passes(expected: Any, got: Any) -> None:
    assert await outcome(expect(RULE, "toolCalls", "t", title=expected), tools(title=got)) == [True]


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ("A", "B"),
        ("A", ""),
        ("A", 5),
        (None, "A"),
        (None, [text("A")]),
        (EqualsOrEmpty("other"), "edit"),
        (IsNot(("idle",)), "idle"),
        (IsNot(("idle",)), {"state": "idle"}),
        (ContainsInOrder(("a", "b")), "ba"),
        (ContainsInOrder(("a",)), 5),
        (IS_PRESENT, False),
        (HasLength(1), []),
        (HasExactly({"a": 1}), {"a": 1, "b": 2}),
        (HasExactly({"a": 1}), {}),
        (HasItem("id", "a", "b"), [{"id": "a"}, {"id": "b"}]),
        (HasItem("id", "a", "b"), "a"),
        ([text("A")], [text("AB")]),
        ([text("A")], "A"),
        ([text("A")], [5]),
        ({"a": 1}, [1]),
        (5, True),
        (5, "5"),
    ],
)
async def test_wrong_state_fails(expected: Any, got: Any) -> None:
    assert await outcome(expect(RULE, "toolCalls", "t", title=expected), tools(title=got)) == [
        False
    ]


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"toolCalls": None},
        {"toolCalls": []},
        {"toolCalls": "many"},
        {"toolCalls": [1, {"title": "A"}]},
        {"toolCalls": [{"toolCallId": "t"}]},
        {"toolCalls": [{"toolCallId": 5}, {"toolCallId": "t", "status": "pending"}]},
        {"toolCalls": [{"toolCallId": "t", "title": None}]},
    ],
)
async def test_missing_members_are_not_judged(shown: Json) -> None:
    assert await outcome(expect(RULE, "toolCalls", "t", title="A"), shown) == []


async def test_member_that_was_reported_once_must_not_disappear() -> None:
    assert await outcome(expect(RULE, "toolCalls", "x", title="A"), tools(title="A")) == [False]
    assert await outcome(expect(RULE, "toolCalls", "t", title="A"), tools()) == [False]
    assert await outcome(expect(RULE, "toolCalls", "t", title=None), tools()) == [True]
    assert await outcome(expect(RULE, "toolCalls", "t", title=IS_PRESENT), tools(title=None)) == [
        False
    ]
    assert await outcome(expect(RULE, "toolCalls", "t", title=IsNot(("A",))), tools()) == [True]


async def test_optional_member_can_disappear() -> None:
    one = expect_or_absent(expect(RULE, "toolCalls", "x", title=None))
    assert await outcome(one, tools(title="A")) == [True]


async def test_state_can_lag_a_moment() -> None:
    late = [tools(title="old"), tools(title="old"), tools(title="new")]
    assert await outcome(expect(RULE, "toolCalls", "t", title="new"), *late) == [True]


async def test_session_has_members_of_its_own() -> None:
    assert await outcome(expect(RULE, "", title="A"), {"title": "A"}) == [True]
    assert await outcome(expect(RULE, "", title="A"), {"title": "B"}) == [False]
    assert await outcome(expect(RULE, "usage", cost={"amount": 1}), {"usage": {"cost": None}}) == []


async def test_single_plan_needs_no_id() -> None:
    one = expect(RULE, "plans", entries=[{"content": "A"}])
    for plan in ({}, {"planId": None}, {"planId": "its own"}):
        shown = {"plans": [{"entries": [{"content": "A"}], **plan}]}
        assert await outcome(one, shown) == [True]
