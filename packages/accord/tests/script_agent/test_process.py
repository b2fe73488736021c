"""The script agent as a program, `python -m accord agent script`, as clients start it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import accord
from accord import ConnectionLost
from script_agent.conversation import BOTH, run_prompt
from versions import only

AGENT = (sys.executable, "-W", "error", "-m", "accord", "agent", "script")


@BOTH
async def test_program_serves_the_agent(version: int, tmp_path: Path) -> None:
    noise: list[str] = []
    async with (
        asyncio.timeout(30),
        accord.connect(
            AGENT, versions=only(version), on_stderr=noise.append, on_stdout_noise=noise.append
        ) as agent,
    ):
        assert agent.version == version
        session = await agent.new_session(tmp_path)
        assert (await run_prompt(session, "echo hello")).text == "hello"
    assert noise == []


async def test_newest_version_is_negotiated(tmp_path: Path) -> None:
    async with asyncio.timeout(30), accord.connect(AGENT) as agent:
        assert agent.version == 2


@BOTH
async def test_exit_ends_the_process_with_its_status(version: int, tmp_path: Path) -> None:
    async with asyncio.timeout(30), accord.connect(AGENT, versions=only(version)) as agent:
        session = await agent.new_session(tmp_path)
        with pytest.raises(ConnectionLost) as caught:
            await run_prompt(session, "exit 7")
    assert caught.value.exit_status == 7
