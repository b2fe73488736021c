"""The messages of a recording, before it was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord_inspector.errors import ApiError
from accord_inspector.messages import Messages
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
