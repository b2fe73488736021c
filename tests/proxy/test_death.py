"""SIGKILL of any component at any point: no process is left, and every caller gets an error."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import Chain, Text, chain, component, connect
from accord.errors import AccordError
from accord.proxy.parts import Component
from requirement import requirement

PASSES = str(Path(__file__).parent / "programs" / "pass_proxy.py")
AGENT = [sys.executable, "-m", "accord", "agent", "script"]


class _Killer:
    """Kills one component at the frame with this number, counted on all connections."""

    def __init__(self, victim: int, at_frame: int) -> None:
        self.pids: list[int] = []
        self.frames = 0
        self._victim = victim
        self._at_frame = at_frame

    def watched(self, command: Any) -> Component:
        made = component(command)

        async def opened() -> Any:
            assert made.open is not None
            transport: Any = made.open()
            transport.spawn()
            self.pids.append(transport.pid)
            transport.spawn = lambda: None  # it is started
            return transport

        return Component(made.name, open=opened)

    def observe(self, hop: str, direction: str, frame: bytes | bytearray) -> None:
        self.frames += 1
        if self.frames == self._at_frame:
            os.kill(self.pids[self._victim], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("at_frame", [2, 12, 31])
@requirement("R-PROXY-22")
async def test_killed_component_leaves_no_process_and_no_caller(victim: int, at_frame: int) -> None:
    killer = _Killer(victim, at_frame)
    parts = chain(*map(killer.watched, (PASSES, PASSES, AGENT))).observed(killer.observe)
    with pytest.raises(AccordError):
        await _two_sessions(parts)
    assert killer.frames >= at_frame
    assert len(killer.pids) == 3
    for pid in killer.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def _two_sessions(parts: Chain) -> None:
    async with asyncio.timeout(30), connect(parts) as agent:
        sessions = [await agent.new_session("."), await agent.new_session(".")]
        errors = await asyncio.gather(*map(_prompts, sessions), return_exceptions=True)
        assert all(isinstance(error, AccordError) for error in errors)
        raise next(error for error in errors if error is not None)


async def _prompts(session: Any) -> None:
    while True:
        async with session.prompt("stream 2") as turn:
            assert [event async for event in turn if isinstance(event, Text)]
