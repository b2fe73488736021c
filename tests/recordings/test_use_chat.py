"""Real agents in `accord chat`: the driver that makes the table of the page, and its data."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("needs a pseudo-terminal", allow_module_level=True)

from recordings.record import fake_model
from recordings.use_chat import CHAT_AGENTS, DATA, ChatAgent, use

AGENTS = {agent.name: agent for agent in CHAT_AGENTS}
ROWS: list[dict[str, Any]] = json.loads(DATA.read_text("utf-8"))


def test_ten_programs_of_others_were_used() -> None:
    assert len({row["program"] for row in ROWS if not row["program"].startswith("Accord")}) >= 10
    assert all(row["version"] for row in ROWS)


def did_everything(row: dict[str, Any]) -> bool:
    is_back = row["resume"] and not row["refused"]
    was_cancelled = row["cancel"] == "cancelled" and row["goes_on"]
    return bool(row["permissions"] and row["rejected"] and was_cancelled and is_back)


def test_nine_programs_did_everything() -> None:
    assert len({row["program"] for row in ROWS if did_everything(row)}) >= 9


def test_each_changed_the_file_and_left_nothing_running_or_has_a_remark() -> None:
    for row in ROWS:
        assert row["changed"] or "no tools" in " ".join(row["remarks"]), row["agent"]
        assert row["left_running"] == [], row["agent"]
        assert did_everything(row) or row["remarks"], row["agent"]


async def used(agent: ChatAgent, folder: Path) -> dict[str, Any]:
    async with fake_model() as model:
        return await asyncio.to_thread(use, agent, folder, model)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_bundled_agent_is_used_and_resumed(tmp_path: Path) -> None:
    found = await used(AGENTS["accord-coder"], tmp_path)
    assert found["changed"]
    assert (found["hunks"], found["rejected"]) == (2, True)
    assert (found["permissions"], found["cancel"]) == (2, "cancelled")
    assert (found["resume"], found["refused"]) == ("session/resume", "")
    assert found["shows_conversation"]
    assert found["left_running"] == []


@pytest.mark.programs
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["claude-agent-acp", "qwen-code"])
async def test_agent_of_others_asks_is_undone_and_remembers(name: str, tmp_path: Path) -> None:
    agent = AGENTS[name]
    if not agent.known.is_installed:
        why = f"{name} is missing: run tests/interop/install.sh real"
        if os.environ.get("ACCORD_REQUIRE_INTEROP") == "1":
            pytest.fail(why)
        pytest.skip(why)
    found = await used(agent, tmp_path)
    assert found["permissions"]
    assert (found["hunks"], found["rejected"]) == (2, True)
    assert found["cancel"] == "cancelled"
    assert found["goes_on"]
    assert found["remembers"]
