"""No started process outlives its owner, however the owner ends."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from accord.local.command import LocalCommand
from accord.testing import Recorder
from accord.transports import process_group as start_guardian
from accord.transports.process import process

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="marks are found on Linux only"),
    pytest.mark.slow,  # waits for processes that do not obey
]

loops = ("asyncio",)  # test_process.py ends processes on all of them
PROGRAMS = Path(__file__).parent / "programs"
# `-S` also lets the interpreter start: a fork would not have the mark in its environment.
FAMILY = [sys.executable, "-S", str(PROGRAMS / "family.py")]
LONGEST_S = 30.0


class Family:
    """Processes that are not children of this one, watched by handles that cannot be reused."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.pids = pids
        self._watched = [os.pidfd_open(pid) for pid in pids]

    def wait_all_gone(self) -> None:
        until = time.monotonic() + LONGEST_S
        for pid, fd in zip(self.pids, self._watched, strict=True):
            left = max(until - time.monotonic(), 0.0)
            assert select.select([fd], [], [], left)[0], f"{pid} of {self.pids} lives on"

    def alive(self) -> list[bool]:
        return [not select.select([fd], [], [], 0)[0] for fd in self._watched]

    def kill(self) -> None:
        for fd in self._watched:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            os.close(fd)


@contextmanager
def watched(line: bytes) -> Iterator[Family]:
    family = Family(json.loads(line)["pids"])
    try:
        yield family
    finally:
        family.kill()


class Heard:
    """The output of a command; returns its first line."""

    def __init__(self) -> None:
        self._text = b""
        self._line = asyncio.Event()

    def __call__(self, data: bytes) -> None:
        self._text += data
        if b"\n" in self._text:
            self._line.set()

    async def line(self) -> bytes:
        async with asyncio.timeout(LONGEST_S):
            await self._line.wait()
        return self._text.partition(b"\n")[0]


@pytest.mark.parametrize("how", [[], ["stubborn"], ["done"]], ids=["obeys", "stubborn", "done"])
async def test_closing_a_command_ends_processes_that_left_its_group(
    how: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord.local.command._STOP_TIMES_S", (0.0, 0.3, 2.0))
    heard = Heard()
    command = LocalCommand([*FAMILY, *how], cwd="/", on_output=heard)
    try:
        with watched(await heard.line()) as family:
            if "done" in how:
                await command.wait()
            await command.aclose()
            family.wait_all_gone()
    finally:
        await command.aclose()


async def test_closing_a_command_does_not_end_another() -> None:
    heard = Heard()
    one = LocalCommand(FAMILY, cwd="/", on_output=heard)
    try:
        with watched(await heard.line()) as family:
            other_heard = Heard()
            other = LocalCommand(FAMILY, cwd="/", on_output=other_heard)
            try:
                with watched(await other_heard.line()) as second:
                    await other.aclose()
                    second.wait_all_gone()
                    assert all(family.alive())
            finally:
                await other.aclose()
            await one.aclose()
            family.wait_all_gone()
    finally:
        await one.aclose()


@pytest.mark.parametrize("how", ["eof", "stubborn"])
async def test_processes_of_an_agent_are_ended_unless_they_detached(how: str) -> None:
    transport, heard = (
        process(*FAMILY, how, stop_times_s=(10.0 if how == "eof" else 0.1, 0.2, 2.0))(),
        Recorder(),
    )
    await transport.start(heard)
    try:
        await heard.until(lambda: bool(heard.frames))
        with watched(bytes(heard.frames[0])) as family:
            await transport.aclose()
            if how == "eof":
                # For example the browser that it has opened for the user.
                assert family.alive() == [False, False, True, True]
            else:
                family.wait_all_gone()
    finally:
        await transport.aclose()


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("command", signal.SIGKILL),
        ("command", signal.SIGTERM),
        ("command stubborn", signal.SIGTERM),
        ("command fork", signal.SIGKILL),
        ("agent stubborn", signal.SIGKILL),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else value.name,
)
def test_no_process_outlives_a_killed_owner(kind: str, number: int) -> None:
    command = [sys.executable, str(PROGRAMS / "owner.py"), *kind.split()]
    owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert owner.stdin is not None
    assert owner.stdout is not None
    try:
        with watched(owner.stdout.readline()) as family:
            owner.send_signal(number)
            assert owner.wait(LONGEST_S) == -number
            family.wait_all_gone()
            # The guardian inherits no descriptor of its owner, so readers see the end of a pipe.
            assert owner.stdout.read() == b""
    finally:
        owner.kill()
        owner.wait(LONGEST_S)
        owner.stdin.close()
        owner.stdout.close()


async def test_killed_guardian_is_replaced_with_the_same_processes() -> None:
    heard = Heard()
    command = LocalCommand(FAMILY, cwd="/", on_output=heard)
    try:
        with watched(await heard.line()) as family:
            first = start_guardian._owner.guardian
            os.kill(first, signal.SIGKILL)
            await asyncio.to_thread(os.waitid, os.P_PID, first, os.WEXITED | os.WNOWAIT)
            other = LocalCommand(["true"], cwd="/")
            await other.wait()
            await other.aclose()
            assert start_guardian._owner.guardian != first
            assert all(family.alive())
            await command.aclose()
            family.wait_all_gone()
    finally:
        await command.aclose()
    assert not start_guardian._owner.guarded


async def test_mark_is_appended_to_those_of_outer_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(start_guardian.MARK_VARIABLE, "outer.a1,")
    command = LocalCommand(
        ["sh", "-c", f"echo ${start_guardian.MARK_VARIABLE}"], cwd="/", env={"A": "b"}
    )
    try:
        await command.wait()
        text = command.output.text()
    finally:
        await command.aclose()
    assert text.startswith("outer.a1,")
    assert text.removeprefix("outer.a1,").startswith(f"{start_guardian._owner.name}.c")
