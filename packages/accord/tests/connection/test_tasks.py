"""Every task has an owner that ends it."""

from __future__ import annotations

import ast
import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager

import pytest

from accord.connection.tasks import Owning, Tasks, discard, discard_with
from project import ROOT, SOURCES

# Coroutine functions that are given an awaitable, and why it is closed if they never begin.
# A coroutine that is closed before its first step does not close what it was given.
GIVEN_AWAITABLES = {
    "accord.agent.session_manager:_finished": "it is awaited at once, and runs the work in a task",
    "accord.connection.lanes:Lanes._run": "Lanes._abandon discards it",
    "accord.connection.calls:RequestHandlers._await": "_never_started discards it",
    "accord.connection.tasks:logged": "Connection.spawn discards it",
    "accord.client.files:ClientFiles._await_lines": "Owning",
    "accord.client.v1:_file": "Owning",
    "accord.proxy.handlers:OrderedStage._pass_rest": "Owning",
    "accord.proxy.handlers:OrderedStage._wait": "discard_with",
    "accord.proxy.handlers:PassingRequest._run": "discard_with",
    "accord.proxy.handlers:_edits.later": "Owning",
    "accord.proxy.handlers:ProxyStage._handler.later": "Owning",
    "accord.proxy.hooks:UpdateHook._call_later": "Owning",
    "accord.proxy.budget:_ChainBudget._asked": "it is awaited at once, and waits in a task",
    "accord.remote.server:_unless": "it is awaited at once",
    "accord.testing:_raises": "it is awaited at once",
    "accord.transports.http:HttpTransport._guard": "closed at the end of the task",
    "accord_bridges.inspect:_owned": "it is awaited at once",
    "accord_bridges.used_in.turns:there": "given to the loop of another thread at once",
    "accord_conformance.client.run:ClientRun._guarded": "discard_with",
    "accord_fleet.attempt:_Attempt._connect": "it is awaited at once",
    "accord_fleet.gateway.gateway:until_disconnect": "it is awaited at once",
    "accord_terminal.sessions.owner.owner:Owner._in_order": "it is awaited at once, in a task",
    "accord_inspector.talk.live_client:LiveClient.run": "discard_with",
}


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


@asynccontextmanager
async def no_coroutine_is_dropped() -> AsyncGenerator[None, None]:
    """Raise the warning of the interpreter, an error in tests, for a coroutine never awaited."""
    yield
    await asyncio.sleep(0)  # the callbacks of the tasks that ended
    gc.collect(1)


async def test_what_a_task_was_given_is_closed_if_it_is_cancelled_before_its_first_step() -> None:
    async def work() -> None:
        raise AssertionError("it was never begun")

    async def wrap(inner: object) -> None:
        raise AssertionError("it was never begun")

    async with no_coroutine_is_dropped():
        inner = work()
        task = Tasks().spawn(wrap(inner), "wrapped")
        discard_with(task, inner, "not a coroutine")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_awaitable_that_owns_others_is_awaited_once_or_discarded_with_them() -> None:
    async def half(number: int) -> float:
        await asyncio.sleep(0)
        return number / 2

    async def text(number: Awaitable[float]) -> str:
        return str(await number)

    given = half(3)
    assert await Owning(text(given), given) == "1.5"
    async with no_coroutine_is_dropped():
        given = half(3)
        Owning(text(given), given).close()


def test_every_coroutine_function_that_is_given_an_awaitable_is_known() -> None:
    found: set[str] = set()
    for path in sorted(path for folder in SOURCES.values() for path in folder.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts[3:])

        def search(node: ast.AST, owner: str, module: str = module) -> None:
            for child in ast.iter_child_nodes(node):
                name = getattr(child, "name", "")
                inside = f"{owner}.{name}".lstrip(".") if name else owner
                if isinstance(child, ast.AsyncFunctionDef):
                    given = [*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs]
                    hints = [ast.unparse(each.annotation) for each in given if each.annotation]
                    if any(hint.startswith(("Awaitable[", "Coroutine[")) for hint in hints):
                        found.add(f"{module}:{inside}")
                search(child, inside)

        text = path.read_text("utf-8")
        if ": Awaitable[" in text or ": Coroutine[" in text:  # of a parameter
            search(ast.parse(text), "")
    assert found == set(GIVEN_AWAITABLES)
