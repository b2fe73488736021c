"""A client's session with the script agent, in either version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import accord
from accord import ClientSession, ClientTurn, ConnectedAgent, ContentBlock
from accord.script_agent.agent import ScriptAgent
from accord.transports.memory import pair
from raw_peer import QUICK
from versions import only

__all__ = ("BOTH", "FinishedTurn", "connected", "conversation", "run_prompt")

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


@asynccontextmanager
async def connected(version: int, **options: Any) -> AsyncGenerator[ConnectedAgent, None]:
    """Connect to a script agent in this process, in one version of the protocol."""
    here, there = pair()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(accord.serve(ScriptAgent(), there, limits=QUICK))
        async with accord.connect(here, limits=QUICK, versions=only(version), **options) as agent:
            yield agent


@asynccontextmanager
async def conversation(
    version: int, cwd: Path, **options: Any
) -> AsyncGenerator[ClientSession, None]:
    """Open a session with a script agent in this process."""
    async with connected(version, **options) as agent:
        yield await agent.new_session(cwd)


class FinishedTurn:
    """A turn that has ended, with its events."""

    def __init__(self, turn: ClientTurn, events: list[Any]) -> None:
        self.turn = turn
        self.events = events

    @property
    def text(self) -> str:
        return self.turn.text

    @property
    def stop_reason(self) -> str | None:
        return self.turn.stop_reason

    def of(self, cls: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, cls)]


async def run_prompt(session: ClientSession, *contents: ContentBlock) -> FinishedTurn:
    """Prompt the agent and wait for the end of the turn."""
    async with session.prompt(*contents) as turn:
        events = [event async for event in turn]
    return FinishedTurn(turn, events)
