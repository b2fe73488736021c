"""The messages of a recording: before it was read, and when pages come and leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord_inspector.inspection import MessageWatcher
from accord_inspector.json_http import filter_of
from accord_inspector.judged import Judged
from accord_inspector.messages import Messages
from accord_terminal.conversation import ApiError
from accord_trace.selection import Selection
from inspector.recordings import opening, save


def test_message_is_found_before_the_recording_was_read(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    save(path, opening())
    messages = Messages(path)
    assert len(messages) == 0
    assert messages.row(2).method == "session/new"
    with pytest.raises(ApiError, match="Unknown message 10: the recording has 4"):
        messages.row(9)
    messages.close()


def test_search_rests_when_the_last_page_has_another_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rested: list[str] = []
    monkeypatch.setattr(Selection, "rest", lambda self: rested.append(self.wanted.text))
    messages = Messages(save(tmp_path / "r.acp.jsonl", opening()))
    one, two = (
        MessageWatcher(lambda _: messages, lambda given, _: filter_of(given), lambda _: Judged())
        for _ in range(2)
    )
    for page, text in ((one, "a"), (two, "a"), (two, "b"), (one, "a")):
        page.watch({"watch": {"text": text}})
    assert rested == []
    one.watch({"watch": {"text": "b"}})
    assert rested == ["a"]
    two.watch({"watch": {}})
    assert rested == ["a"]
    one.watch({"watch": {"path": "$["}})
    assert rested == ["a", "b"]
    messages.close()
