"""Commands whose stdin, stdout or stderr was closed before they started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ACCORD = [sys.executable, "-m", "accord"]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the shell of POSIX")


def run(folder: Path, closed: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *ACCORD, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize(
    "closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"], ids=["stdin", "stdout", "stderr", "all"]
)
def test_no_file_takes_the_place_of_a_closed_stream(tmp_path: Path, closed: str) -> None:
    agent = (*ACCORD, "agent", "script")
    ran = run(tmp_path, closed, "trace", "record", "--output", "r.acp.jsonl", "--", *agent)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    lines = (tmp_path / "r.acp.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["header", "end", "end"]


@pytest.mark.parametrize("words", [("agent", "script"), ("--version",)], ids=" ".join)
def test_command_without_streams_has_no_traceback(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = run(tmp_path, "<&-", *words)
    assert (ran.returncode, ran.stderr) == (0, "")
