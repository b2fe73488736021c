"""Every client example runs with its agent, asserts, and exits."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import roles
from accord.transports.memory import pair
from accord_conformance.judges.observer import Observer
from accord_conformance.rules.manifest import requirements
from forked import forked_programs
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
    with forked_programs():
        done = subprocess.run(
            [sys.executable, "-W", "error", EXAMPLES / name],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=50,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.fixture
def wire_level_agent() -> Any:
    spec = importlib.util.spec_from_file_location("v1_agent_example", EXAMPLES / "v1_agent.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example.Upper()


async def test_wire_level_agent_reports_a_client_without_files(wire_level_agent: Any) -> None:
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(roles.serve(here, wire_level_agent, limits=QUICK))
        async with accord.connect(
            there, permissions=lambda _: "allow", versions=(1,), limits=QUICK
        ) as agent:
            session = await agent.new_session("/")
            async with session.prompt("/home/me/notes.txt") as turn:
                assert await turn.wait() == "end_turn"
            assert "I can only edit files" in turn.text
            assert not session.transcript.tool_calls


@pytest.mark.parametrize("answer", ["allow", "reject"])
async def test_wire_level_agent_shows_the_edit_that_it_asks_for(
    wire_level_agent: Any, answer: Any, tmp_path: Path
) -> None:
    notes, missing = tmp_path / "notes.txt", tmp_path / "missing.txt"
    asked: list[accord.PermissionRequest] = []
    judge = Observer(only="agent")

    def decide(request: accord.PermissionRequest) -> Any:
        asked.append(request)
        return answer

    def watch(way: str, frame: bytes | bytearray) -> None:
        judge.receive("agent" if way == "received" else "client", bytes(frame))

    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(roles.serve(here, wire_level_agent, limits=QUICK))
        async with accord.connect(
            there,
            permissions=decide,
            files="rw",
            versions=(1,),
            observers=[watch],
            limits=QUICK,
        ) as agent:
            for _ in range(2):
                session = await agent.new_session(tmp_path)
                for prompt in (f"Please edit {notes}", str(notes), str(missing), "notes.txt"):
                    notes.write_text("hello")
                    async with session.prompt(prompt) as turn:
                        assert await turn.wait() == "end_turn"
                    edited = answer == "allow" and str(notes) in prompt
                    assert notes.read_text() == ("HELLO" if edited else "hello")
    assert len(asked) == 4
    for request in asked:
        assert request.tool_call is not None
        assert request.tool_call.content == (accord.Diff(str(notes), "hello", "HELLO"),)
    report = judge.finish()
    assert [one.rule for one in report.failures()] == []
    assert report.outcome(requirements()["R-PERM-20"]) == "passed"
