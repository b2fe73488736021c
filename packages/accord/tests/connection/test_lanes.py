"""Order: the messages of one session are handled in the order in which they arrive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from accord.connection.connection import Connection
from accord.connection.lanes import Backlogs
from accord.connection.limits import Limits
from accord.errors import ConnectionClosed
from event_loop import drain_event_loop
from raw_peer import (
    Params,
    any_json,
    cancel,
    notification,
    request,
    serving,
    success,
    two_connections,
    with_raw_peer,
)
from requirement import requirement


def update(n: int, session: str = "s") -> Any:
    return notification("update", {"sessionId": session, "n": n})


async def ask(connection: Connection, method: str, session: str | None = "s", n: int = 0) -> Any:
    params = Params(session_id=session, n=n)
    return await connection.call(method, params, any_json, session=session)


class Handled:
    """An async handler that records its starts and ends, and waits where the test says so."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.gates: dict[int, asyncio.Event] = {}

    def hold(self, n: int) -> asyncio.Event:
        return self.gates.setdefault(n, asyncio.Event())

    async def __call__(self, params: Params, context: Any) -> None:
        self.log.append(f"+{params.n}")
        if params.n in self.gates:
            await self.gates[params.n].wait()
        self.log.append(f"-{params.n}")


@requirement("R-GEN-17")
async def test_updates_of_a_session_are_handled_one_by_one_in_order() -> None:
    handled = Handled()
    gate = handled.hold(0)
    async with with_raw_peer(serving(tell_update=handled)) as sides:
        sides.other.send(*map(update, range(3)))
        await drain_event_loop()
        assert handled.log == ["+0"]
        gate.set()
        await drain_event_loop()
        assert handled.log == ["+0", "-0", "+1", "-1", "+2", "-2"]


async def test_sync_handlers_are_called_directly_without_a_task() -> None:
    tasks: list[Any] = []

    def handle(params: Params, context: Any) -> None:
        tasks.append(asyncio.current_task())

    async with with_raw_peer(serving(tell_update=handle, ask_ping=handle)) as sides:
        before = asyncio.all_tasks()
        sides.other.send(update(0), request(1, "ping"))
        await sides.other.get()
        assert tasks == [None, None]
        assert asyncio.all_tasks() == before


async def test_sync_handlers_wait_for_an_earlier_coroutine() -> None:
    log: list[int] = []
    gate = asyncio.Event()

    async def slow(params: Params, context: Any) -> None:
        await gate.wait()
        log.append(params.n)

    def quick(params: Params, context: Any) -> None:
        log.append(params.n)

    async with with_raw_peer(serving(tell_update=slow, tell_quick=quick)) as sides:
        sides.other.send(update(0), notification("quick", {"sessionId": "s", "n": 1}))
        await drain_event_loop()
        assert log == []
        gate.set()
        await drain_event_loop()
        assert log == [0, 1]


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize("error", [GeneratorExit(), BaseExceptionGroup("odd", [SystemExit()])])
async def test_next_message_is_handled_whatever_a_handler_raises(
    error: BaseException, delayed: bool
) -> None:
    log: list[int] = []

    async def later(params: Params, context: Any) -> None:
        await asyncio.sleep(0)
        log.append(params.n)
        raise error

    def now(params: Params, context: Any) -> None:
        log.append(params.n)
        raise error

    async with with_raw_peer(serving(tell_update=later if delayed else now)) as sides:
        sides.other.send(update(0), update(1), update(2))
        await drain_event_loop()
        assert log == [0, 1, 2]


async def test_sessions_do_not_wait_for_each_other() -> None:
    handled = Handled()
    gate = handled.hold(0)
    async with with_raw_peer(serving(tell_update=handled)) as sides:
        sides.other.send(update(0, "a"), update(1, "b"), update(2, "a"))
        await drain_event_loop()
        assert handled.log == ["+0", "+1", "-1"]
        gate.set()
        await drain_event_loop()
        assert handled.log[3:] == ["-0", "+2", "-2"]


async def test_requests_of_a_session_start_after_earlier_updates() -> None:
    handled = Handled()
    gate = handled.hold(0)

    def permission(params: Params, context: Any) -> str:
        handled.log.append("permission")
        return "ok"

    async with with_raw_peer(serving(tell_update=handled, ask_permission=permission)) as sides:
        sides.other.send(update(0), request(7, "permission", {"sessionId": "s"}), update(1))
        await drain_event_loop()
        assert sides.other.inbox.empty()
        gate.set()
        assert (await sides.other.get())["result"] == "ok"
        await drain_event_loop()
        assert handled.log == ["+0", "-0", "permission", "+1", "-1"]


async def test_requests_of_a_session_do_not_wait_for_each_other() -> None:
    gate = asyncio.Event()

    async def slow(params: Params, context: Any) -> None:
        await gate.wait()

    async with with_raw_peer(serving(ask_slow=slow, ask_quick=lambda p, c: "now")) as sides:
        sides.other.ask(1, "slow", {"sessionId": "s"})
        assert await sides.other.result_of(2, "quick", {"sessionId": "s"}) == "now"
        gate.set()


async def test_call_returns_after_the_handlers_of_all_earlier_updates() -> None:
    handled = Handled()
    gate = handled.hold(1)
    async with with_raw_peer(serving(tell_update=handled)) as sides:
        prompt = asyncio.create_task(ask(sides.ours, "prompt"))
        asked = await sides.other.get()
        sides.other.send(*map(update, range(3)), success(asked["id"], "end_turn"), update(3))
        await drain_event_loop()
        assert not prompt.done()
        gate.set()
        assert await prompt == "end_turn"
        assert handled.log[:6] == ["+0", "-0", "+1", "-1", "+2", "-2"]


async def test_call_of_another_session_does_not_wait() -> None:
    handled = Handled()
    handled.hold(0)
    async with with_raw_peer(serving(tell_update=handled)) as sides:
        sides.other.send(update(0, "a"))
        prompt = asyncio.create_task(ask(sides.ours, "prompt", "b"))
        asked = await sides.other.get()
        sides.other.answer(asked["id"], "end_turn")
        assert await prompt == "end_turn"
        assert handled.log == ["+0"]


async def test_handler_receives_the_response_to_its_own_call_immediately() -> None:
    log: list[Any] = []

    async def on_update(params: Params, context: Any) -> None:
        if params.n == 0:
            log.append(await ask(sides.ours, "read"))
        log.append(params.n)

    async with with_raw_peer(serving(tell_update=on_update)) as sides:
        sides.other.send(update(0), update(1))
        asked = await sides.other.get()
        sides.other.send(update(2), success(asked["id"], "text"))
        await drain_event_loop()
        assert log == ["text", 0, 1, 2]


async def test_task_started_by_a_handler_receives_its_responses_immediately() -> None:
    log: list[Any] = []

    async def on_update(params: Params, context: Any) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(sides.ours, "read", n=n)) for n in range(2)]
        log.extend(task.result() for task in tasks)

    async with with_raw_peer(serving(tell_update=on_update)) as sides:
        sides.other.send(update(0))
        first, second = await sides.other.get(), await sides.other.get()
        sides.other.send(success(second["id"], 2), success(first["id"], 1))
        await drain_event_loop()
        assert log == [1, 2]


async def test_request_during_a_call_of_a_handler_is_served() -> None:
    log: list[Any] = []

    async def on_update(params: Params, context: Any) -> None:
        log.append(await ask(client, "prompt"))

    async def prompt(params: Params, context: Any) -> str:
        return await ask(agent, "permission")

    client_side = serving(tell_update=on_update, ask_permission=lambda p, c: "allowed")
    async with two_connections(client_side, serving(ask_prompt=prompt)) as (client, agent):
        await agent.notify("update", Params(session_id="s"))
        await drain_event_loop()
        assert log == ["allowed"]


async def test_queued_request_is_served_when_a_handler_calls_the_peer() -> None:
    log: list[Any] = []
    gate = asyncio.Event()

    async def on_update(params: Params, context: Any) -> None:
        await gate.wait()
        log.append(await ask(sides.ours, "read"))

    routes = serving(tell_update=on_update, ask_permission=lambda p, c: "allowed")
    async with with_raw_peer(routes) as sides:
        sides.other.send(update(0), request(7, "permission", {"sessionId": "s"}))
        await drain_event_loop()
        assert sides.other.inbox.empty()
        gate.set()
        came = [await sides.other.get(), await sides.other.get()]
        read = next(message for message in came if "method" in message)
        assert {"jsonrpc": "2.0", "id": 7, "result": "allowed"} in came
        sides.other.answer(read["id"], "text")
        await drain_event_loop()
        assert log == ["text"]


async def test_two_sessions_whose_handlers_call_each_other_do_not_deadlock() -> None:
    log: list[Any] = []

    def side(name: str) -> Any:
        async def on_update(params: Params, context: Any) -> None:
            other = "b" if params.session_id == "a" else "a"
            connection = left if name == "left" else right
            log.append(await ask(connection, "cross", other, params.n))

        async def cross(params: Params, context: Any) -> int:
            connection = left if name == "left" else right
            if params.n == 0:
                return 0
            return 1 + await ask(connection, "cross", params.session_id, params.n - 1)

        return serving(tell_update=on_update, ask_cross=cross)

    async with two_connections(side("left"), side("right")) as (left, right):
        for connection in (left, right):
            for session in "ab":
                await connection.notify("update", Params(session_id=session, n=3))
                await connection.notify("update", Params(session_id=session, n=1))
        await drain_event_loop()
        await drain_event_loop()
        assert sorted(log) == [1, 1, 1, 1, 3, 3, 3, 3]


@requirement("R-ERR-05", "R-GEN-05")
async def test_failed_handler_is_logged_and_the_next_update_is_handled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handled: list[int] = []

    async def on_update(params: Params, context: Any) -> None:
        if params.n == 0:
            raise ValueError("secret")
        handled.append(params.n)

    def plain(params: Params, context: Any) -> None:
        raise KeyError("secret")

    async with with_raw_peer(serving(tell_update=on_update, tell_plain=plain)) as sides:
        sides.other.send(update(0), update(1), notification("plain"), update(2))
        await drain_event_loop()
        assert handled == [1, 2]
        assert sides.other.inbox.empty()
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == [
        "! the handler of 'plain' failed",
        "! the handler of 'update' failed",
    ]


async def test_handler_that_awaits_a_cancelled_task_fails_alone() -> None:
    handled: list[int] = []

    async def on_update(params: Params, context: Any) -> None:
        if params.n == 0:
            task = asyncio.ensure_future(asyncio.Event().wait())
            task.cancel()
            await task
        handled.append(params.n)

    async with with_raw_peer(serving(tell_update=on_update)) as sides:
        prompt = asyncio.create_task(ask(sides.ours, "prompt"))
        asked = await sides.other.get()
        sides.other.send(update(0), update(1), success(asked["id"], "end_turn"))
        assert await prompt == "end_turn"
        assert handled == [1]


@requirement("R-REQCAN-05")
async def test_request_cancelled_in_the_queue_is_answered_and_not_handled() -> None:
    handled = Handled()
    gate = handled.hold(0)
    routes = serving(tell_update=handled, ask_permission=lambda p, c: handled.log.append("asked"))
    async with with_raw_peer(routes) as sides:
        sides.other.send(update(0), request(7, "permission", {"sessionId": "s"}), cancel(7))
        assert (await sides.other.get())["error"]["code"] == -32800
        gate.set()
        await drain_event_loop()
        assert handled.log == ["+0", "-0"]
        assert sides.other.inbox.empty()


async def test_close_fails_a_call_whose_response_waits_for_a_handler() -> None:
    handled = Handled()
    handled.hold(0)
    async with with_raw_peer(serving(tell_update=handled)) as sides:
        prompt = asyncio.create_task(ask(sides.ours, "prompt"))
        asked = await sides.other.get()
        sides.other.send(update(0), success(asked["id"], "end_turn"))
        await drain_event_loop()
        await sides.ours.aclose()
        with pytest.raises(ConnectionClosed):  # the earlier update was not handled
            await prompt


async def test_messages_received_before_the_disconnect_are_handled() -> None:
    handled = Handled()
    gate = handled.hold(0)
    async with with_raw_peer(serving(tell_update=handled)) as sides:
        prompt = asyncio.create_task(ask(sides.ours, "prompt"))
        asked = await sides.other.get()
        sides.other.send(*map(update, range(3)), success(asked["id"], "end_turn"))
        await sides.other.hang_up()
        await drain_event_loop()
        gate.set()
        assert await prompt == "end_turn"
        assert handled.log == ["+0", "-0", "+1", "-1", "+2", "-2"]


async def test_messages_after_a_handler_that_cancels_itself_are_answered() -> None:
    current: list[Any] = []

    async def handle(params: Params, context: Any) -> None:
        current.append(asyncio.current_task())
        await asyncio.Event().wait()

    async with with_raw_peer(serving(tell_update=handle, ask_ask=lambda *_: "ran")) as sides:
        prompt = asyncio.create_task(ask(sides.ours, "prompt"))
        asked = await sides.other.get()
        sides.other.send(update(0), request(1, "ask", {"sessionId": "s"}))
        sides.other.send(success(asked["id"], "end_turn"))
        await drain_event_loop()
        current[0].cancel()
        assert (await sides.other.get())["error"]["code"] == -32800
        assert await prompt == "end_turn"


def test_full_backlog_is_read_again_at_half_of_its_bound() -> None:
    for limits in (Limits(backlog_messages=4), Limits(backlog_bytes=4 * 1000)):
        backlog = Backlogs(limits, lambda: None).open("s", lambda error: None)
        for _ in range(5):
            backlog.add(700)  # 1000 with what is added for each message
        while backlog.is_full:
            backlog.remove(700)
        assert backlog.items == 2, limits
