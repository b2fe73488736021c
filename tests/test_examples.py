"""Every client example runs with its agent, asserts, and exits."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import accord
from accord import roles
from accord.transports.memory import pair
from raw_peer import QUICK

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    "name",
    [
        "v1_client.py",
        "v2_client.py",
        "ask_and_watch.py",
        "careful_editor.py",
        "survive_a_restart.py",
        "ask_over_http.py",
        "give_tools.py",
        "replay_a_recording.py",
    ],
)
def test_example_exits_0(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


async def test_wire_level_agent_reports_a_client_without_files() -> None:
    spec = importlib.util.spec_from_file_location("v1_agent_example", EXAMPLES / "v1_agent.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)

    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(roles.serve(here, example.Upper(), limits=QUICK))
        async with accord.connect(
            there, permissions=lambda _: "allow", versions=(1,), limits=QUICK
        ) as agent:
            session = await agent.new_session("/")
            async with session.prompt("/home/me/notes.txt") as turn:
                assert await turn.wait() == "end_turn"
            assert "I can only edit files" in turn.text
            assert session.transcript.tool_calls[0].status == "failed"
