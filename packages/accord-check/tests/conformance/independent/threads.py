"""Runs the independent agent in threads of this process, connected by memory."""

from __future__ import annotations

import asyncio
import importlib
import queue
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from accord.transports.base import Frame, Receiver, Transport

__all__ = ("select", "serve")

_NAMES = ("peer", "shapes", "turns", "agent")


def _load() -> tuple[ModuleType, ModuleType]:
    """Import the agent as the program does; other tests have packages of these names."""
    others = {name: sys.modules.pop(name) for name in _NAMES if name in sys.modules}
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        return importlib.import_module("agent"), sys.modules["peer"]
    finally:
        del sys.path[0]
        for name in _NAMES:
            sys.modules.pop(name, None)
        sys.modules.update(others)


_agent, _peer = _load()


def select(breaks: str, vary: str) -> None:
    """Let all agents violate a rule, or vary what they do."""
    for chosen, words in ((_peer.BREAK, [breaks]), (_peer.VARY, vary.split(","))):
        chosen.clear()
        chosen.update(words)


class _Lines(Receiver):
    """The lines that the agent reads."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self._lines.put(bytes(frame) + b"\n")

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        raise AssertionError(limit)

    def eof_received(self, error: Exception | None) -> None:
        self._lines.put(b"")

    def writable(self) -> None:
        return

    def read(self, _: int) -> bytes:
        return self._lines.get()


async def serve(transport: Transport) -> None:
    """Serve one client, until it disconnects."""
    loop = asyncio.get_running_loop()
    lines, ended = _Lines(), asyncio.Event()

    def write(data: bytes) -> int:
        frames = [line for line in data.split(b"\n") if line.strip()]
        try:
            loop.call_soon_threadsafe(transport.write, frames)
        except RuntimeError:
            raise OSError("The test has ended") from None
        return len(data)

    def run() -> None:
        _agent.Agent(lines.read, write).serve()
        loop.call_soon_threadsafe(ended.set)

    await transport.start(lines)
    threading.Thread(target=run, daemon=True).start()
    await ended.wait()
