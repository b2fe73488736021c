"""The statistics of a recording as a table."""

from __future__ import annotations

from pathlib import Path

from rich.cells import cell_len

from accord_terminal.trace.stats import stats_table
from accord_trace import open_trace
from accord_trace.stats import stats_of, stats_page
from project import ROOT
from requirement import requirement
from sample_recordings import ESCAPES, one_turn


@requirement("R-SEC-12")
def test_texts_of_agents_are_shown_without_control_characters(tmp_path: Path) -> None:
    talk = one_turn()
    talk.update(5.0, sessionUpdate="tool_call", toolCallId="x", title="<script>alert(1)</script>")
    stats = stats_of(open_trace(talk.save(tmp_path / "r.acp.jsonl")))
    for text in ("\n".join(stats_table(stats, 100)), stats_page(stats, "<b>")):
        assert ESCAPES not in text
        assert "\\x1b[2J\\u202eevil" in text
    page = stats_page(stats, "<b>")
    assert "<script" not in page
    assert "<b>" not in page


def test_table_fits_a_terminal() -> None:
    for path in sorted((ROOT / "tests/recordings").glob("*.acp.jsonl")):
        stats = stats_of(open_trace(path))
        for width in (60, 80):
            lines = list(stats_table(stats, width))
            assert max(map(cell_len, lines)) <= width, path
            heads = [line.split("  ")[0] for line in lines]
            assert any(head.endswith("ssion/prompt") for head in heads), path
            assert "Turn" in heads, path


def test_sessions_are_in_the_table_if_there_are_several(tmp_path: Path) -> None:
    stats = stats_of(open_trace(one_turn().save(tmp_path / "r.acp.jsonl")))
    assert any("Session" in line for line in stats_table(stats, 80))
    stats.sessions[1:] = []
    assert not any("Session" in line for line in stats_table(stats, 80))
