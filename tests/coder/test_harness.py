"""The harness itself: a turn of the coder through pipes, with a model that is told what to do."""

from __future__ import annotations

from pathlib import Path

from coder.harness import BOTH, coder_session
from coder.scripted_model import ScriptedModel


@BOTH
async def test_told_model_uses_the_tool_it_is_told_to(version: int, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("eins\nzwei\n")
    async with coder_session(version, cwd=tmp_path, model=ScriptedModel()) as talk:
        result = await talk.use("read", path="notes.txt")
        assert result.text == "eins\nzwei\n"
        assert talk.call.status == "completed"
        assert talk.stop_reason == "end_turn"
        assert talk.state.mode == "default"


@BOTH
async def test_coder_without_a_model_of_ours_answers(version: int, tmp_path: Path) -> None:
    async with coder_session(version, cwd=tmp_path) as talk:
        assert await talk.prompt("qwertz")
