"""The watcher of memory and processes, with real processes and with simulated ones."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping

import pytest

from accord_fleet import processes as process_watcher
from accord_fleet.processes import ProcessWatcher, Seen, processes_now
from accord_fleet.types import LimitName, Limits
from fleet.simulated_time import run_simulated

MIB = 2**20
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


async def reached(program: str, limits: Limits, **env: str) -> tuple[LimitName, str]:
    """Run a program until it reaches a limit."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(program)),
        stdin=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, **env},
    )
    watcher = ProcessWatcher()
    loop = asyncio.get_running_loop()
    found: asyncio.Future[tuple[LimitName, str]] = loop.create_future()
    try:
        with watcher.watch(process.pid, limits, lambda *limit: found.set_result(limit)):
            async with asyncio.timeout(40):
                return await found
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()  # a daemon ends with its stdin


EATS = "data = bytearray(150 * 2**20); data[::4096] = b'x' * len(data[::4096]); input()"


@LINUX
async def test_memory_of_a_child_counts() -> None:
    program = f"""
        import subprocess, sys
        subprocess.run([sys.executable, "-c", {EATS!r}])
    """
    limit, text = await reached(program, Limits(memory_bytes=100 * MIB))
    assert limit == "memory_bytes"
    used, allowed = (int(word) for word in text.split() if word.isdigit())
    assert 100 <= used <= 200
    assert allowed == 100
    assert text.startswith("The agent and its children use ")


DAEMON = f"""
    import os, signal, subprocess, sys
    if os.fork() == 0:
        subprocess.Popen([sys.executable, "-c", {EATS!r}], start_new_session=True)
        os._exit(0)
    os.wait()
    signal.pause()
"""


@LINUX
async def test_memory_of_a_daemon_counts() -> None:
    """It has left the session and the parent; the mark in its environment tells whose it is."""
    limits = Limits(memory_bytes=100 * MIB)
    limit, _ = await reached(DAEMON, limits, ACCORD_STARTED_BY="0123.a7,")
    assert limit == "memory_bytes"


@LINUX
async def test_environment_that_is_empty_while_a_program_begins_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = process_watcher._environment  # its moment is too short for a test
    empty: set[int] = set()

    def environment(pid: int) -> bytes:
        if pid in empty:
            return read(pid)
        empty.add(pid)
        return b""

    monkeypatch.setattr(process_watcher, "_environment", environment)
    limits = Limits(memory_bytes=100 * MIB)
    limit, _ = await reached(DAEMON, limits, ACCORD_STARTED_BY="0123.a8,")
    assert limit == "memory_bytes"


@LINUX
async def test_shared_memory_counts_once() -> None:
    program = """
        import mmap, os, signal
        shared = mmap.mmap(-1, 60 * 2**20)
        shared.write(bytes(60 * 2**20))
        for _ in range(3):
            if os.fork() == 0:
                sum(shared[::4096])
                signal.pause()
        data = bytearray(60 * 2**20)
        data[::4096] = b"x" * len(data[::4096])
        signal.pause()
    """
    _, text = await reached(program, Limits(memory_bytes=100 * MIB))
    used = int(text.split()[6])
    assert 100 <= used < 200, text  # three times 60 MiB more, if each process counted them


@LINUX
async def test_too_many_processes_are_noticed() -> None:
    program = """
        import os, signal
        for _ in range(20):
            if os.fork() == 0:
                signal.pause()
        signal.pause()
    """
    found = await reached(program, Limits(processes=10))
    limit, text = found
    assert limit == "processes"
    assert text.endswith(" processes, 10 are allowed")


class World:
    """Processes whose memory is a function of time."""

    def __init__(self) -> None:
        self.rates: dict[int, float] = {}
        self.orphans: set[int] = set()

    def scan(self, roots: Iterable[int]) -> Mapping[int, Seen]:
        now = asyncio.get_running_loop().time() - 1000.0
        found = {1: Seen(1, 0, 1, 1, 0, 10**9)}
        for root, rate in self.rates.items():
            parent = 1 if root in self.orphans else root
            found[root] = Seen(root, 1, root, root, 5, 10 * MIB)
            found[root + 1] = Seen(root + 1, parent, root + 1, root + 1, 6, int(rate * now * MIB))
        return found


def test_one_attempt_is_ended_and_the_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.thread_time", lambda: 0.0)  # scans on a slow machine would be rarer

    async def run() -> None:
        world = World()
        world.rates = dict.fromkeys(range(1000, 2000, 100), 0.0) | {500: 10.0}
        world.rates[700] = 1.0
        watcher = ProcessWatcher(scan=world.scan)
        ended: list[tuple[int, float]] = []

        async def attempt(root: int) -> None:
            done = asyncio.Event()

            def on_limit(limit: LimitName, text: str) -> None:
                ended.append((root, asyncio.get_running_loop().time() - 1000.0))
                done.set()

            limits = Limits(memory_bytes=100 * MIB)
            with watcher.watch(root, limits, on_limit), contextlib.suppress(TimeoutError):
                async with asyncio.timeout(60):
                    await done.wait()

        await asyncio.gather(*map(attempt, world.rates))
        assert [root for root, _ in ended] == [500]
        assert 9.0 <= ended[0][1] <= 9.5  # soon after 90 MiB of growth, although scans are rare
        assert watcher.scans < 60 / 0.25 + 20

    run_simulated(run())


def test_process_that_was_seen_stays_in_its_attempt() -> None:
    async def run() -> None:
        world = World()
        world.rates = {500: 10.0}
        watcher = ProcessWatcher(scan=world.scan)
        found = asyncio.get_running_loop().create_future()
        limits = Limits(memory_bytes=100 * MIB)
        with watcher.watch(500, limits, lambda *limit: found.set_result(limit)):
            await asyncio.sleep(1)
            world.orphans.add(500)
            assert (await found)[0] == "memory_bytes"

    run_simulated(run())


@LINUX
def test_scan_of_this_machine_has_this_process() -> None:
    seen = processes_now(())[os.getpid()]
    assert seen.parent == os.getppid()
    assert seen.group == os.getpgrp()
    assert seen.resident_bytes > 10 * MIB


async def test_nothing_is_watched_without_a_limit() -> None:
    watcher = ProcessWatcher(scan=lambda roots: {})
    with watcher.watch(1, Limits(), lambda *_: None):
        assert watcher._timer is None
