"""The token of `accord serve`: where it comes from, and where it is not seen."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import accord
from remote.commands import run
from requirement import requirement

AGENT = """
import os
from accord import Agent, Turn


class Hello(Agent):
    async def prompt(self, turn: Turn) -> None:
        await turn.say(os.environ.get("ACCORD_TOKEN", "no token"))
"""


@contextmanager
def serving(folder: Path, *words: str, token: str = "") -> Generator[tuple[str, str, int]]:
    """Run `accord serve`; give the URL, the second line and the process id."""
    (folder / "hello.py").write_text(AGENT)
    command = [sys.executable, "-m", "accord", "serve", "--port", "0", *words, "hello:Hello"]
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "ACCORD_TOKEN": token},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            url = process.stderr.readline().split()[2]
            yield url, "" if token else process.stderr.readline(), process.pid
        finally:
            process.kill()


@requirement("R-SEC-06")
@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_token_is_made_and_written_to_a_file_for_this_user(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with serving(tmp_path, "--token-file", "token") as (url, line, _pid):
        assert line == "Wrote a new token to token\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        token = file.read_text().strip()
        assert len(token) >= 43  # 256 bits
        assert accord.ask(url, "x", token=token).text == "no token"
    with serving(tmp_path, "--token-file", "token", token="another-token-for-clients") as (
        url,
        *_,
    ):
        assert file.read_text().strip() == token
        assert accord.ask(url, "x", token=token).text == "no token"


@requirement("R-SEC-06")
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_token_is_not_in_the_list_of_processes(tmp_path: Path) -> None:
    token = "a-token-of-a-test-for-processes"
    with serving(tmp_path, token=token) as (url, _line, pid):
        assert accord.ask(url, "x", token=token).text == "no token"  # nor in what agents inherit
        assert token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_token_file_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    served = run(["serve", "--token-file", "missing/token"], folder=tmp_path)
    assert served.returncode == 2
    assert "cannot be made" in served.stderr
