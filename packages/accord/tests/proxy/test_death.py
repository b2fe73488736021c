"""SIGKILL of a component, the conductor or the editor: no process is left, and no caller waits."""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from accord import Chain, Text, chain, component, connect
from accord.errors import AccordError
from accord.proxy.conductor import Component
from needs import needs
from requirement import requirement

PROGRAMS = Path(__file__).parent / "programs"
PASSES = str(PROGRAMS / "pass_proxy.py")
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
@pytest.mark.parametrize(
    ("victim", "at_frame"), [(0, 2), (0, 31), (1, 12), (1, 31), (2, 2), (2, 12)]
)
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


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux has it")
@pytest.mark.parametrize(
    ("victim", "number", "result"),
    [
        ("editor", signal.SIGKILL, ""),
        ("conductor", signal.SIGKILL, "ConnectionLost\n"),
        ("conductor", signal.SIGTERM, None),
    ],
    ids=["editor-kill", "conductor-kill", "conductor-term"],
)
@needs("accord_terminal")
def test_killed_end_of_a_chain_leaves_no_process_and_no_caller(
    victim: str, number: int, result: str | None
) -> None:
    chain_of = [sys.executable, "-m", "accord", "chain", PASSES, PASSES, shlex.join(AGENT)]
    command = [sys.executable, str(PROGRAMS / "waiting_editor.py"), *chain_of]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as editor,
        ExitStack() as ends,  # ends first: the other waits for the editor
    ):
        ends.callback(editor.kill)
        assert editor.stdout is not None
        conductor = int(editor.stdout.readline())
        pids = descendants(editor.pid)
        assert conductor in pids
        assert len(pids) >= 4  # with the two proxies and the agent
        running = [process for pid in pids for process in _watched(ends, pid)]
        os.kill(editor.pid if victim == "editor" else conductor, number)
        for process in running:
            assert select.select([process], [], [], 30)[0], "a process is left"
        output, _ = editor.communicate(timeout=30)
        assert result in (None, output)


def _watched(ends: ExitStack, pid: int) -> list[int]:
    """Return what is readable when a process has ended, nothing if it has."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return []
    ends.callback(os.close, descriptor)
    return [descriptor]


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for word in (task / "children").read_text().split():
                found += [int(word), *descendants(int(word))]
    return found
