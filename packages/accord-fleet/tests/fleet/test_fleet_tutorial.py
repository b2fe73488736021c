"""The tutorial is followed in an empty folder: each step prints what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from codeblocks import commands, extract
from needs import needs
from project import ROOT

PAGE = ROOT / "docs/tutorial/evaluate-two-agents.md"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def without_times(text: str) -> list[str]:
    """Return lines without what differs from run to run: times, machines and spaces."""
    text = re.sub(r"\((?:workspace|start) .*\)", "(parts)", text)
    text = re.sub(r"[\d.:]+ (?:ms|s|min)\b", "T", text)
    text = re.sub(r"on \S+:\d+", "on M", text)
    return [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]


@needs("accord_coder")
def test_each_step_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    env = {**os.environ, "COLUMNS": "80", "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    shown = 0
    for block in extract(PAGE.read_text("utf-8")):
        if block.note == "file":
            (tmp_path / block.value).write_text(block.code, "utf-8")
        if block.note == "skip" or block.language != "console":
            continue
        for command, expected in commands(block):
            name, *words = shlex.split(command)
            start = [sys.executable, *(["-m", "accord"] if name == "accord" else [])]
            done = subprocess.run(
                [*start, *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, done.stderr
            printed = without_times(done.stdout + done.stderr)
            for line in without_times(expected):
                assert line in printed, f"{command}: {line}"
                del printed[: printed.index(line)]
                shown += 1
    assert shown > 40
