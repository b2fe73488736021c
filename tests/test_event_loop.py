"""`drain_event_loop` returns when the loop is idle, not earlier."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

import pytest

import event_loop
from event_loop import drain_event_loop

Step = Callable[[int], None]


def by_callbacks(finish: Step, steps: int) -> None:
    """Count steps by callbacks that schedule each other."""
    loop = asyncio.get_running_loop()

    def step(left: int) -> None:
        if left:
            loop.call_soon(step, left - 1)
        else:
            finish(steps)

    step(steps)


def by_futures(finish: Step, steps: int) -> None:
    """Count steps by tasks that wait for each other."""

    async def task(left: int) -> None:
        if left:
            await asyncio.ensure_future(task(left - 1))

    asyncio.ensure_future(task(steps)).add_done_callback(lambda _: finish(steps))


def by_sockets(finish: Step, steps: int) -> None:
    """Send a byte back and forth between two sockets of the loop."""
    loop = asyncio.get_running_loop()
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    received = 0

    def echo(source: socket.socket, target: socket.socket) -> None:
        nonlocal received
        source.recv(1)
        received += 1
        if received < steps:
            target.send(b"x")
        else:
            for end in (left, right):
                loop.remove_reader(end)
                end.close()
            finish(steps)

    loop.add_reader(left, echo, left, left)
    loop.add_reader(right, echo, right, right)
    left.send(b"x")


def by_due_timers(finish: Step, steps: int) -> None:
    """Count steps by timers that are due at once."""
    loop = asyncio.get_running_loop()

    def step(left: int) -> None:
        if left:
            loop.call_later(0, step, left - 1)
        else:
            finish(steps)

    step(steps)


@pytest.mark.parametrize("work", [by_callbacks, by_futures, by_sockets, by_due_timers])
@pytest.mark.parametrize("steps", [1, 2, 200])
async def test_everything_ready_has_run(work: Callable[[Step, int], None], steps: int) -> None:
    finished: list[int] = []
    work(finished.append, steps)
    await drain_event_loop()
    assert finished == [steps]


async def test_drain_does_not_wait_for_future_timers_events_or_threads() -> None:
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    waiting = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(asyncio.sleep(600))]
    reader, writer = os.pipe()
    thread = loop.run_in_executor(None, os.read, reader, 1)
    started = loop.time()
    await drain_event_loop()
    assert loop.time() - started < 30
    assert not any(task.done() for task in waiting)
    assert not thread.done()
    os.write(writer, b"x")
    assert await thread == b"x"
    event.set()
    await drain_event_loop()
    assert [task.done() for task in waiting] == [True, False]
    waiting[1].cancel()
    os.close(reader)
    os.close(writer)


async def test_several_tasks_can_wait_at_once() -> None:
    async def wait() -> str:
        await drain_event_loop()
        return "idle"

    async with asyncio.timeout(30):
        assert await asyncio.gather(*(wait() for _ in range(3))) == ["idle"] * 3


async def test_loop_that_is_never_idle_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    monkeypatch.setattr(event_loop, "MAX_ROUNDS", 1000)
    task = asyncio.ensure_future(spin())
    with pytest.raises(AssertionError, match="still busy after 1000 rounds"):
        await drain_event_loop()
    task.cancel()


def test_other_loops_run_many_iterations() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> list[int]:
        finished: list[int] = []
        by_callbacks(finished.append, 20)
        await drain_event_loop()
        return finished

    run: Callable[[Awaitable[list[int]]], list[int]] = uvloop.run
    assert run(main()) == [20]
