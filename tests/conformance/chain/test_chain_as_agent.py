"""A chain is an agent: the scenarios for agents pass through a proxy."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from accord.cli.main import main
from requirement import requirement

SETTINGS = Path(__file__).parents[3] / "examples" / "check" / "script.toml"
PROXY = shlex.join([sys.executable, "-c", "from accord import Proxy; Proxy().run()"])
AGENT = shlex.join([sys.executable, "-m", "accord", "agent", "script"])


@pytest.mark.slow
@requirement("R-PROXY-07")
@pytest.mark.parametrize("version", [1, 2])
def test_chain_passes_the_scenarios_for_agents(
    version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    areas = ["handshake", "permissions", "malformed"]
    only = [word for area in areas for word in ("--only", area)]
    words = ["--config", str(SETTINGS), "--version", str(version), *only]
    chain = [sys.executable, "-m", "accord", "chain", PROXY, AGENT]
    status = main(["check", "agent", *words, "--", *chain])
    out = capsys.readouterr().out
    assert status == 0, out
    assert "advised:" not in out
