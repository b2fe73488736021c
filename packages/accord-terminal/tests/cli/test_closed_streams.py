"""Commands whose stdin, stdout or stderr was closed before they started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ACCORD = [sys.executable, "-m", "accord"]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="file descriptors of POSIX")
ALL = (0, 1, 2)


def run(
    folder: Path, closed: Sequence[int], *words: str, program: Sequence[str] = ACCORD
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        preexec_fn=lambda: [os.close(fd) for fd in closed],
    )


@pytest.mark.parametrize(
    "closed", [(0,), (1,), (2,), ALL], ids=["stdin", "stdout", "stderr", "all"]
)
def test_no_file_takes_the_place_of_a_closed_stream(
    tmp_path: Path, closed: tuple[int, ...]
) -> None:
    agent = ("/bin/sh", "-c", "cat")
    ran = run(tmp_path, closed, "trace", "record", "--output", "r.acp.jsonl", "--", *agent)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    lines = (tmp_path / "r.acp.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["header", "end", "end"]


def test_command_without_streams_has_no_traceback(tmp_path: Path) -> None:
    for words in (["agent", "script"], ["--version"]):
        ran = run(tmp_path, (0,), *words)
        assert (ran.returncode, ran.stderr) == (0, ""), words


@pytest.mark.parametrize("closed", [(0,), ALL], ids=["stdin", "all"])
def test_stream_whose_number_a_hook_of_the_interpreter_has_taken_is_open(
    tmp_path: Path, closed: tuple[int, ...]
) -> None:
    hooked = (
        "import os, sys\n"
        "assert os.open('hook', os.O_RDWR | os.O_CREAT) == 0\n"
        "from accord.program import open_standard_streams\n"
        "open_standard_streams()\n"
        "print('said', file=sys.stderr)\n"
        "fds = [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)]\n"
        "with open('result', 'w') as result:\n"
        "    print(repr(sys.stdin.read()), fds[0] > 2, fds[1:], file=result)\n"
    )
    ran = run(tmp_path, closed, program=[sys.executable, "-c", hooked])
    assert (ran.returncode, ran.stdout) == (0, "")
    assert (tmp_path / "result").read_text() == "'' True [1, 2]\n"
    assert (tmp_path / "hook").read_text() == ""
