"""A chain is an agent: the scenarios for agents pass through a proxy."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from accord import Proxy
from accord.program import main
from accord.proxy.chain import chain
from accord.script_agent.agent import ScriptAgent
from conformance.agent.filtered_agent import broken
from conformance.agent.in_memory import SETTINGS, check_in_memory, odd_outcomes
from requirement import requirement

PROXY = "from accord import Proxy; Proxy().run()"
AGENT = shlex.join([sys.executable, "-m", "accord", "agent", "script"])


@pytest.mark.slow
@requirement("R-PROXY-07")
async def test_chain_passes_the_scenarios_for_agents() -> None:
    result = await check_in_memory(chain(Proxy(), ScriptAgent), "script.toml")
    assert broken(result) == {}
    assert odd_outcomes(result) == []
    assert result.unsupported == {}


@requirement("R-PROXY-07")
def test_chain_of_programs_passes_the_scenarios_of_its_processes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = tmp_path / "proxy.py"
    program.write_text(PROXY)
    proxy = shlex.join([sys.executable, str(program)])
    only = [
        word for name in ("malformed/lines", "shutdown/stdin-closed") for word in ("--only", name)
    ]
    # Both versions pass in memory; here, only what the processes do is of interest.
    words = ["--config", str(SETTINGS / "script.toml"), "--version", "2", *only]
    command = [sys.executable, "-m", "accord", "chain", proxy, AGENT]
    status = main(["check", "agent", *words, "--", *command])
    out = capsys.readouterr().out
    assert status == 0, out
    assert "advised:" not in out
