"""Baseline files: the rules that are known to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord_conformance.reports.report import read_baseline, write_baseline


def test_baseline_survives_a_round_trip(tmp_path: Path) -> None:
    known = {("R-GEN-03", 1), ("R-GEN-03", 2), ("R-CANCEL-05", 1)}
    write_baseline(tmp_path / "known.txt", known)
    assert read_baseline(tmp_path / "known.txt") == known


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_baseline(tmp_path / "none.txt")


def test_other_encoding_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "known.txt"
    file.write_text("R-GEN-03 v1", "utf-16")
    with pytest.raises(ValueError, match="expected UTF-8"):
        read_baseline(file)


def test_comments_and_blank_lines_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "known.txt"
    file.write_text("# ours\n\nR-GEN-03 v1  # issue 12\n")
    assert read_baseline(file) == {("R-GEN-03", 1)}


@pytest.mark.parametrize("line", ["R-GEN-03", "GEN-03 v1", "R-GEN-03 v3", "R-GEN-99 v1"])
def test_invalid_line_is_an_error(tmp_path: Path, line: str) -> None:
    file = tmp_path / "known.txt"
    file.write_text(f"R-GEN-04 v1\n{line}\n")
    with pytest.raises(ValueError, match="line 2"):
        read_baseline(file)
