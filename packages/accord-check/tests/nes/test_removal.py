"""Next edit suggestions can be removed by deleting a folder and one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from project import SOURCES

LINE = '_OF_ACCORD = ("accord_conformance.nes.conformance",)\n'
# Imports every module, then connects to an agent and asks the kit for its rules.
PROGRAM = """
import asyncio, importlib, pkgutil, sys
import accord, accord_conformance
from accord.transports.memory import pair
from accord.script_agent.agent import ScriptAgent

for package in (accord, accord_conformance):
    assert package.__file__.startswith(sys.argv[1]), package.__file__
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if "windows" not in module.name and not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:  # of an extra
                if error.name.startswith("accord"):
                    raise

async def main():
    here, there = pair()
    serving = asyncio.ensure_future(accord.serve(ScriptAgent(), there))
    async with accord.connect(here, versions=[1]) as agent:
        session = await agent.new_session()
        async with session.prompt("help") as turn:
            await turn.wait()
        assert "`title TEXT`" in turn.text, turn.text
    await serving

asyncio.run(main())
from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.rules.manifest import requirements
assert requirements() and agent_scenarios()
assert not [name for name in (*requirements(), *sys.modules) if "NES" in name or ".nes" in name]
"""


@pytest.mark.slow  # imports every module in a new process
def test_removing_the_folder_and_the_line_is_enough(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("nes")  # compiled modules are valid in the copy, too
    for package in ("accord", "accord_conformance"):
        shutil.copytree(SOURCES[package], tmp_path / package, ignore=ignored)
    registry = tmp_path / "accord_conformance" / "rules" / "manifest.py"
    text = registry.read_text("utf-8")
    assert text.count(LINE) == 1
    registry.write_text(text.replace(LINE, "_OF_ACCORD = ()\n"), "utf-8")
    left = [p for p in tmp_path.rglob("*.py") if "accord_conformance.nes" in p.read_text("utf-8")]
    assert not left
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(program, env=env, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
