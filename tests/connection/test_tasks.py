"""Every task has an owner that ends it."""

from __future__ import annotations

import asyncio

import pytest

from accord.connection.tasks import Tasks, discard


async def forever() -> None:
    await asyncio.Event().wait()


async def test_task_is_owned_until_it_is_done() -> None:
    tasks, gate = Tasks(), asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    task = tasks.spawn(wait(), name="one")
    assert task in tasks
    gate.set()
    await task
    assert task not in tasks


async def test_cancel_waits_for_the_tasks_to_end() -> None:
    tasks, cleaned = Tasks(), list[int]()

    async def clean(n: int) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            cleaned.append(n)

    for n in range(3):
        tasks.spawn(clean(n), name=f"{n}")
    await asyncio.sleep(0)
    await tasks.cancel(5)
    assert sorted(cleaned) == [0, 1, 2]


async def test_task_that_cancels_all_is_not_cancelled_itself() -> None:
    tasks, log = Tasks(), list[str]()

    async def end_all() -> None:
        await tasks.cancel(5)
        log.append("still here")

    tasks.spawn(forever(), name="other")
    await tasks.spawn(end_all(), name="me")
    assert log == ["still here"]


async def test_task_that_does_not_stop_is_logged_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks, gate = Tasks(), asyncio.Event()

    async def stubborn() -> None:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue

    task = tasks.spawn(stubborn(), name="mule")
    await asyncio.sleep(0)
    await tasks.cancel(0.01)
    assert "mule does not stop" in caplog.text
    gate.set()
    await task


async def test_coroutine_is_discarded_without_a_warning() -> None:
    discard(forever())
    discard(object())
