"""The harness: a turn of the coder through pipes, with a scripted model."""

from __future__ import annotations

from pathlib import Path

from coder.harness import BOTH, coder_session
from coder.scripted_model import ScriptedModel


@BOTH
async def test_scripted_model_uses_the_named_tool(version: int, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("eins\nzwei\n")
    async with coder_session(version, cwd=tmp_path, model=ScriptedModel()) as harness:
        result = await harness.use("read", path="notes.txt")
        assert result.text == "eins\nzwei\n"
        assert harness.call.status == "completed"
        assert harness.stop_reason == "end_turn"
        assert harness.state.mode == "default"


@BOTH
async def test_coder_without_a_given_model_answers(version: int, tmp_path: Path) -> None:
    async with coder_session(version, cwd=tmp_path) as harness:
        assert await harness.prompt("help")
