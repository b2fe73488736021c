"""Editing a message keeps the keys that the types do not have."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accord import v1, v2
from accord.wire.base import replace
from accord.wire.codec import convert, overlay, to_builtins

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=1), inner),
    max_leaves=6,
)


def update(**more: Any) -> dict[str, Any]:
    return {
        "sessionId": "s",
        "x-new": 1,
        "update": {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "title": "T",
            "future": {"a": 1},
            **more,
        },
    }


def test_unchanged_value_is_the_raw_value():
    raw = update()
    typed = convert(raw, v1.SessionNotification)
    assert overlay(raw, typed, typed) is raw


def test_changed_field_changes_nothing_else():
    raw = update(kind="bogus")
    before: Any = convert(raw, v1.SessionNotification)
    after = replace(before, update=replace(before.update, title="New"))
    assert overlay(raw, before, after) == update(kind="bogus", title="New")


def test_edited_item_keeps_the_skipped_items():
    raw = update(
        content=[{"type": "bogus"}, {"type": "diff", "path": "/a", "newText": "n", "h": 1}]
    )
    before: Any = convert(raw, v1.SessionNotification)
    diff = replace(before.update.content[0], path="/b")
    after = replace(before, update=replace(before.update, content=[diff]))
    assert overlay(raw, before, after)["update"]["content"] == [
        {"type": "bogus"},
        {"type": "diff", "path": "/b", "newText": "n", "h": 1},
    ]


def test_removed_item_is_removed_and_the_others_keep_their_raw_form():
    raw = update(
        locations=[{"path": "/a", "odd": 1}, {"path": "/b", "odd": 2}, {"path": "/c", "odd": 3}]
    )
    before: Any = convert(raw, v1.SessionNotification)
    kept = [before.update.locations[0], before.update.locations[2]]
    after = replace(before, update=replace(before.update, locations=kept))
    assert overlay(raw, before, after)["update"]["locations"] == [
        {"path": "/a", "odd": 1},
        {"path": "/c", "odd": 3},
    ]


def test_unknown_variant_survives_a_change_around_it():
    raw = {"sessionId": "s", "update": {"sessionUpdate": "_vendor", "q": 1.50}}
    before = convert(raw, v2.UpdateSessionNotification)
    after = replace(before, session_id="other")
    assert overlay(raw, before, after) == {**raw, "sessionId": "other"}


def test_cleared_three_state_field_is_encoded_as_null():
    raw = {"sessionId": "s", "update": {"sessionUpdate": "session_info_update", "title": "T"}}
    before = convert(raw, v2.UpdateSessionNotification)
    after = replace(before, update=replace(before.update, title=None))
    assert overlay(raw, before, after)["update"]["title"] is None


@given(extra=st.dictionaries(st.sampled_from(["_x", "_y"]), JSON), title=st.text(max_size=3))
def test_decoding_the_overlay_returns_the_edited_value(extra: dict[str, Any], title: str):
    raw = update(**extra)
    before: Any = convert(raw, v1.SessionNotification)
    after = replace(before, update=replace(before.update, title=title))
    laid = overlay(raw, before, after)
    assert convert(laid, v1.SessionNotification) == after
    assert {key: laid["update"][key] for key in extra} == extra
    assert to_builtins(after)["update"]["title"] == title
