"""The frames of a large recording that is replayed."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from accord_trace import open_trace
from accord_trace.replay.script import Frames, StoredFrame, read_scripts
from sample_recordings import one_turn


def test_frames_that_are_too_many_for_memory_are_read_from_a_file() -> None:
    kept = Frames(10)
    sent = [bytes([number]) * number for number in range(1, 50)]
    stored = [kept.keep(frame) for frame in sent]
    assert stored[:4] == sent[:4]
    for frame, place in reversed(list(zip(sent[4:], stored[4:], strict=True))):
        assert isinstance(place, StoredFrame)
        assert place.read() == frame


def test_script_is_the_same_with_and_without_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    [expected] = read_scripts(open_trace(path))
    monkeypatch.setattr(Frames.__init__, "__defaults__", (0,))
    [found] = read_scripts(open_trace(path))
    assert not any(isinstance(step.stored, bytes) for step in found.steps)
    assert [(step.title, step.frame) for step in found.steps] == [
        (step.title, step.frame) for step in expected.steps
    ]
    del found
    gc.collect(1)  # the file is closed without a warning
