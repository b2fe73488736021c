"""The task of `make demo`, with the demonstration model and with a model over HTTP."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from project import ROOT

pytest.importorskip("pydantic_ai", reason="the extra `coder` is not installed")
pytest.importorskip("accord_terminal", reason="the commands are not installed")

from accord_coder.settings import Settings
from coder.harness import coder_session
from coder.models.provider import Says, serve_provider

RECIPE = re.search(r"^demo:.*\n\t\$\(BIN\)/accord ask (.*)$", (ROOT / "Makefile").read_text(), re.M)
ANSWERS = (
    Says("I look at it first.", uses=[("read", {"path": "README.md"})]),
    Says(uses=[("write", {"path": "demo.txt", "text": "hello\n"})]),
    Says(
        uses=[
            ("edit", {"path": "demo.txt", "edits": [{"old": "hello", "new": "hello, world"}]}),
        ]
    ),
    Says(uses=[("execute", {"command": "cat demo.txt"})]),
    Says(uses=[("delete", {"path": "demo.txt"})]),
    Says("`README.md` has 2 lines."),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "README.md", tmp_path)
    return tmp_path


def test_demo_model_completes_the_task(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert RECIPE is not None
    agent = shlex.join([sys.executable, "-m", "accord", "agent", "--model", "demo"])
    asking = subprocess.run(
        [sys.executable, "-m", "accord", "ask", *shlex.split(RECIPE[1]), "--agent", agent],
        cwd=folder,
        env={**os.environ, "ACCORD_DATA": str(tmp_path_factory.mktemp("data"))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert asking.returncode == 0, asking.stderr
    assert "`README.md` has" in asking.stdout
    for part in ("Read README.md", "+ hello", "cat demo.txt", "│ hello, world", "Delete demo.txt"):
        assert part in asking.stderr
    assert [*folder.iterdir()] == [folder / "README.md"]


async def test_http_model_completes_the_task(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert RECIPE is not None
    monkeypatch.setenv("ACCORD_API_KEY", "sk-none")
    async with serve_provider(*ANSWERS) as provider:
        settings = Settings(model="compatible:m", base_url=provider.url)
        async with coder_session(cwd=folder, settings=settings) as harness:
            assert (await harness.prompt(RECIPE[1])).endswith("`README.md` has 2 lines.")
            assert {call.status for call in harness.calls} == {"completed"}
            assert [call.kind for call in harness.calls] == [
                *("read", "edit", "edit", "execute", "delete")
            ]
        assert "hello, world" in str(provider.requests[-2].body["messages"][-1])
    assert [*folder.iterdir()] == [folder / "README.md"]  # noqa: ASYNC240  # nothing else runs
