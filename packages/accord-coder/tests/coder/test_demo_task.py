"""The task of `make demo`, with the demonstration model and with a model over HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from project import ROOT

pytest.importorskip("pydantic_ai", reason="the extra `coder` is not installed")
pytest.importorskip("accord_terminal", reason="the commands are not installed")

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


async def ask(folder: Path, data: Path, *agent: str) -> tuple[str, str]:
    """Return the answer and the tool calls."""
    assert RECIPE is not None
    command = shlex.join([sys.executable, "-W", "error", "-m", "accord", "agent", *agent])
    words = [*shlex.split(RECIPE[1]), "--agent", command]
    asking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "accord", "ask", *words),
        cwd=folder,
        env={**os.environ, "ACCORD_DATA": str(data), "ACCORD_API_KEY": "sk-none"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(50):
        said, done = await asking.communicate()
    assert asking.returncode == 0, done.decode()
    return said.decode(), done.decode()


async def test_http_model_completes_the_task_of_the_demo_model(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("data")
    shutil.copy(ROOT / "README.md", tmp_path)
    async with serve_provider(*ANSWERS) as provider:
        model = ("--model", "compatible:m", "--base-url", provider.url)
        outcomes = [
            await ask(tmp_path, data, *model),
            await ask(tmp_path, data, "--model", "demo"),
        ]
        assert len(provider.requests) == len(ANSWERS)
    for said, done in outcomes:
        assert "`README.md` has" in said
        for part in (
            "Read README.md",
            "+ hello",
            "cat demo.txt",
            "│ hello, world",
            "Delete demo.txt",
        ):
            assert part in done
    assert [*tmp_path.iterdir()] == [tmp_path / "README.md"]  # noqa: ASYNC240  # nothing else runs
