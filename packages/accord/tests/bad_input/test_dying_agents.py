"""Agents, started by Accord's client, that exit unexpectedly."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import v1
from accord.errors import ConnectionLost
from accord.roles import connect
from accord.transports.process import process
from requirement import requirement

AGENT = str(Path(__file__).with_name("dying_agent.py"))


class Client(v1.ClientRole):
    """Supports nothing."""


async def ask(kind: str) -> Any:
    async with (
        asyncio.timeout(20),
        connect(process(sys.executable, AGENT, kind), Client()) as agent,
    ):
        return await agent.call_extension("_question")


@requirement("R-STDIO-06")
@pytest.mark.parametrize("kind", ["dies", "dies in a line"])
async def test_call_fails_at_once_with_the_last_stderr_lines_of_an_agent_that_exits(
    kind: str,
) -> None:
    with pytest.raises(ConnectionLost) as lost:
        await ask(kind)
    assert lost.value.exit_status == 3
    assert lost.value.stderr is not None
    assert lost.value.stderr.endswith("the last words")


async def test_call_fails_with_the_signal_that_ended_the_agent() -> None:
    with pytest.raises(ConnectionLost) as lost:
        await ask("is killed")
    assert lost.value.exit_status == -9


async def test_call_fails_when_the_agent_closes_stdout_and_keeps_running() -> None:
    with pytest.raises(ConnectionLost):
        await ask("hangs up")


@requirement("R-STDIO-06")
async def test_agent_can_write_much_to_stderr() -> None:
    assert await ask("floods stderr") == "done"


@requirement("R-STDIO-04")
async def test_lines_that_are_not_json_are_skipped() -> None:
    assert await ask("prints") == "done"
