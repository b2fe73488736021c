"""`accord check conductor` with a real conductor, and components that are real processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from accord.program import main

CONDUCTOR = str(Path(__file__).with_name("base_conductor.py"))


def run(*words: str) -> int:
    return main(["check", "conductor", *words])


@pytest.mark.skipif(sys.platform == "win32", reason="asyncio reads no pipes from stdin there")
def test_correct_conductor_passes(capsys: pytest.CaptureFixture[str]) -> None:
    only = ["handshake/initialize", "forward/ends", "life/agent-exit"]
    names = [word for name in only for word in ("--only", name)]
    words = [*names, "--version", "1", "--timeout", "20"]
    command = [sys.executable, CONDUCTOR, "acp", "{proxy}", "{proxy}", "{agent}"]
    status = run(*words, "--", *command)
    out = capsys.readouterr().out
    assert status == 0, out
    assert "3 of 3 scenarios were completed" in out
    assert "Passed:" in out


def test_command_without_components_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    for components in ([], ["{agent}"], ["{agent}", "{proxy}"], ["{proxy}", "{agent}", "{agent}"]):
        assert run("--", "conductor", *components) == 2
        assert "{proxy}" in capsys.readouterr().err
