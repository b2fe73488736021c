"""Baselines: what is known to be broken, as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord_conformance.reports.baseline import read_baseline, write_baseline


def test_what_was_written_is_read(tmp_path: Path) -> None:
    known = {("R-GEN-03", 1), ("R-GEN-03", 2), ("R-CANCEL-05", 1)}
    write_baseline(tmp_path / "known.txt", known)
    assert read_baseline(tmp_path / "known.txt") == known


def test_no_file_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_baseline(tmp_path / "none.txt")


def test_file_of_another_encoding_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "known.txt"
    file.write_text("R-GEN-03 v1", "utf-16")
    with pytest.raises(ValueError, match="expected UTF-8"):
        read_baseline(file)


def test_comments_and_blank_lines_mean_nothing(tmp_path: Path) -> None:
    file = tmp_path / "known.txt"
    file.write_text("# ours\n\nR-GEN-03 v1  # issue 12\n")
    assert read_baseline(file) == {("R-GEN-03", 1)}


@pytest.mark.parametrize("line", ["R-GEN-03", "GEN-03 v1", "R-GEN-03 v3", "R-GEN-99 v1"])
def test_line_that_is_none_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "known.txt"
    file.write_text(f"R-GEN-04 v1\n{line}\n")
    with pytest.raises(ValueError, match="line 2"):
        read_baseline(file)
