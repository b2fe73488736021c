"""Replaces the machine in a run: its clock, its random bytes, its processes."""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from accord.local.command import Output
from simulation.loop import SimulatedLoop

__all__ = ("SimulatedCommand", "environment")

# The module that starts commands.
_STARTERS = ("accord.agent.files_and_terminals", "accord.client.files")


class SimulatedCommand:
    """A process that prints lines for some seconds; like `LocalCommand`, without a process."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str | None] | None = None,
        output_bytes: int | None = None,
        on_output: Callable[[bytes], None] | None = None,
        **_more: Any,
    ) -> None:
        self.output = Output(output_bytes)
        self._on_output = on_output
        self._exit: tuple[int | None, str | None] | None = None
        seconds, lines = float(argv[1]), int(argv[2])
        self._running = asyncio.create_task(self._run(seconds, lines), name="simulated process")

    async def _run(self, seconds: float, lines: int) -> None:
        try:
            for number in range(lines):
                await asyncio.sleep(seconds / lines)
                data = f"line {number}\n".encode()
                self.output.add(data)
                if self._on_output is not None:
                    self._on_output(data)
            self._exit = (0, None)
        except asyncio.CancelledError:
            self._exit = (None, "SIGKILL")

    async def wait(self) -> tuple[int | None, str | None]:
        await asyncio.wait([self._running])
        return self.status()

    def status(self) -> tuple[int | None, str | None]:
        return self._exit or (None, "SIGKILL")

    @property
    def running(self) -> bool:
        return not self._running.done()

    async def kill(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])

    async def aclose(self) -> None:
        await self.kill()


def _clock(loop: SimulatedLoop) -> type[datetime.datetime]:
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return datetime.datetime.fromtimestamp(1_700_000_000 + loop.time(), tz)

    return Clock


@contextmanager
def environment(loop: SimulatedLoop, seed: int) -> Generator[None, None, None]:
    """Make Accord use the simulated machine inside the block."""
    chance = random.Random(f"urandom {seed}")
    clock = _clock(loop)
    with patch.object(os, "urandom", chance.randbytes):
        patches: list[Any] = []
        try:
            patches += [
                patch.object(sys.modules[name], "LocalCommand", SimulatedCommand)
                for name in _STARTERS
            ]
            patches += [
                patch.object(module, "datetime", clock)
                for name, module in list(sys.modules.items())
                if name.startswith("accord.") and vars(module).get("datetime") is datetime.datetime
            ]
            for each in patches:
                each.start()
            yield
        finally:
            for each in reversed(patches):
                each.stop()
