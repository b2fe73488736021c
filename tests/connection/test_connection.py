"""Connections: calls, writes, limits, observers, and the end."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from msgspec import structs

from accord.connection.connection import Connection
from accord.connection.lanes import MAX_LANES
from accord.connection.routes import Route
from accord.errors import (
    BacklogExceeded,
    ConnectionClosed,
    ConnectionLost,
    FrameTooLarge,
    RemoteProtocolError,
    RequestError,
    ResourceNotFound,
    TransportError,
)
from accord.transports.memory import pair
from accord.wire.codec import decoder
from event_loop import drain_event_loop
from raw_peer import (
    QUICK,
    Params,
    any_json,
    notification,
    request,
    serving,
    success,
    two_connections,
    with_raw_peer,
)
from requirement import requirement


async def ask(connection: Connection, method: str = "it", n: int = 0) -> Any:
    return await connection.call(method, Params(n=n), any_json)


async def forever(params: Params, context: Any) -> None:
    await asyncio.Event().wait()


async def error_of(waiting: Any) -> BaseException:
    """Return the exception of an awaitable."""
    (error,) = await asyncio.gather(waiting, return_exceptions=True)
    assert isinstance(error, BaseException), error
    return error


# Calls.


async def test_call_returns_the_decoded_result() -> None:
    async with two_connections(serving(), serving(ask_it=lambda p, c: Params(n=p.n + 1))) as (
        left,
        _,
    ):
        assert await left.call("it", Params(n=1), decoder(Params)) == Params(n=2)


async def test_concurrent_calls_receive_their_own_results() -> None:
    async with two_connections(serving(), serving(ask_it=lambda p, c: p.n)) as (left, _):
        answers = await asyncio.gather(*(ask(left, n=n) for n in range(500)))
        assert answers == list(range(500))


async def test_error_response_is_raised_as_the_class_of_its_code() -> None:
    async with with_raw_peer(serving()) as sides:
        call = asyncio.create_task(ask(sides.ours))
        await sides.other.get()
        error = {"code": -32002, "message": "No such session", "data": {"sessionId": "s"}}
        sides.other.send({"jsonrpc": "2.0", "id": 0, "error": error})
        with pytest.raises(ResourceNotFound) as caught:
            await call
        assert caught.value.data == {"sessionId": "s"}


async def test_failed_call_keeps_no_references() -> None:
    class Reader:
        def read(self, text: Any) -> Any:
            return any_json(text)

    reader = Reader()
    gone = weakref.ref(reader)

    def refuse(params: Any, context: Any) -> None:
        raise ResourceNotFound

    async with two_connections(serving(), serving(ask_it=refuse)) as (left, _):
        assert isinstance(await error_of(left.call("it", Params(n=1), reader.read)), RequestError)
        del reader
        await drain_event_loop()
        gc.collect()
        assert gone() is None


@requirement("R-ERR-04")
@pytest.mark.parametrize("answer", [{"result": "no object"}, {"result": {"n": "x"}}])
async def test_result_of_the_wrong_type_is_an_error_of_the_peer(answer: Any) -> None:
    async with with_raw_peer(serving()) as sides:
        call = asyncio.create_task(sides.ours.call("it", {}, decoder(Params)))
        await sides.other.get()
        sides.other.send({"jsonrpc": "2.0", "id": 0, **answer})
        with pytest.raises(RemoteProtocolError):
            await call


async def test_malformed_response_fails_the_call_and_the_connection_continues() -> None:
    async with with_raw_peer(serving(ask_ping=lambda p, c: 1)) as sides:
        call = asyncio.create_task(ask(sides.ours))
        await sides.other.get()
        sides.other.send({"jsonrpc": "2.0", "id": 0}, {"jsonrpc": "2.0", "id": 0, "result": 2})
        assert isinstance(await error_of(call), RequestError)
        assert await sides.other.result_of(1, "ping") == 1


async def test_params_that_cannot_be_encoded_raise_at_the_sender() -> None:
    async with with_raw_peer(serving()) as sides:
        with pytest.raises(TypeError):
            await sides.ours.call("it", object(), any_json)
        with pytest.raises(TypeError):
            await sides.ours.notify("it", object())
        await drain_event_loop()
        assert sides.other.inbox.empty()


@requirement("R-REQCAN-02", "R-REQCAN-12")
async def test_cancelling_a_caller_cancels_its_request() -> None:
    async with with_raw_peer(serving(ask_ping=lambda p, c: 1)) as sides:
        call = asyncio.create_task(ask(sides.ours))
        asked = await sides.other.get()
        call.cancel()
        assert isinstance(await error_of(call), asyncio.CancelledError)
        assert await sides.other.get() == notification(
            "$/cancel_request", {"requestId": asked["id"]}
        )
        sides.other.answer(asked["id"], "late")
        assert await sides.other.result_of(1, "ping") == 1


async def test_finished_call_is_not_cancelled_at_the_peer() -> None:
    async with with_raw_peer(serving()) as sides:
        call = asyncio.create_task(ask(sides.ours))
        asked = await sides.other.get()
        sides.other.answer(asked["id"], 1)
        await call
        call.cancel()
        await drain_event_loop()
        assert sides.other.inbox.empty()


@requirement("R-REQCAN-09")
async def test_cancel_is_forwarded_to_requests_that_the_handler_awaits() -> None:
    async def middle(params: Params, context: Any) -> Any:
        return await ask(sides.ours, "inner")

    async with with_raw_peer(serving(ask_outer=middle)) as sides:
        sides.other.ask(5, "outer")
        inner = await sides.other.get()
        sides.other.tell("$/cancel_request", {"requestId": 5})
        came = [await sides.other.get(), await sides.other.get()]
        assert notification("$/cancel_request", {"requestId": inner["id"]}) in came
        assert [m["error"]["code"] for m in came if "error" in m] == [-32800]


async def test_error_of_the_peer_is_not_returned_to_it_by_a_handler() -> None:
    async def relay(params: Params, context: Any) -> Any:
        return await ask(there, "missing")

    async def relay_to_another(params: Params, context: Any) -> Any:
        return await ask(elsewhere, "missing")

    routes = serving(ask_relay=relay, ask_other=relay_to_another)
    async with (
        two_connections(serving(), routes) as (here, there),
        two_connections(serving(), serving()) as (elsewhere, _),
    ):
        error = await error_of(ask(here, "relay"))
        assert isinstance(error, RequestError)
        assert (error.code, error.message) == (-32603, "Internal error")
        error = await error_of(ask(here, "other"))
        assert isinstance(error, RequestError)
        assert error.code == -32601  # a proxy forwards it


async def test_notification_handler_can_return_anything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with with_raw_peer(
        serving(tell_it=lambda p, c: {"a": 1}, ask_it=lambda p, c: 1)
    ) as sides:
        sides.other.tell("it")
        assert await sides.other.result_of(1, "it") == 1
    assert not caplog.records


@pytest.mark.parametrize("later", [False, True])
async def test_flood_of_failing_messages_is_logged_in_one_line(
    later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(params: Params, context: Any) -> None:
        raise ValueError("always")

    async def fail_later(params: Params, context: Any) -> None:
        await asyncio.sleep(0)
        raise ValueError("always")

    handler = fail_later if later else fail
    async with with_raw_peer(serving(ask_it=handler, tell_it=handler)) as sides:
        sides.other.send(*(request(n, "it") for n in range(500)))
        for _ in range(500):
            assert (await sides.other.get())["error"]["code"] == -32603
        assert len(caplog.records) == 1
        assert caplog.records[0].exc_info is not None


# Batched writes.


async def test_frames_of_one_loop_iteration_are_written_together() -> None:
    async with with_raw_peer(serving()) as sides:
        calls = [asyncio.ensure_future(ask(sides.ours)) for _ in range(3)]
        for n in range(10):
            await sides.ours.notify("reported", Params(n=n))
        await drain_event_loop()
        assert sides.other.reads == [10, 3] or sides.other.reads == [13]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_requests_of_one_loop_iteration_are_written_together() -> None:
    async with with_raw_peer(serving()) as sides:
        calls = [asyncio.ensure_future(ask(sides.ours)) for _ in range(4)]
        await drain_event_loop()
        assert sides.other.reads == [4]
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_responses_to_one_read_are_written_together() -> None:
    async with with_raw_peer(serving(ask_it=lambda p, c: p.n)) as sides:
        sides.other.send(*(request(n, "it", {"n": n}) for n in range(20)))
        await drain_event_loop()
        assert sides.other.reads == [20]


async def test_frames_are_written_in_the_order_of_creation() -> None:
    async def handle(params: Params, context: Any) -> str:
        for n in range(3):
            await sides.ours.notify("reported", Params(n=n))
        return "done"

    async with with_raw_peer(serving(ask_it=handle)) as sides:
        sides.other.ask(1, "it")
        came = [await sides.other.get() for _ in range(4)]
        assert [m.get("params", {}).get("n", 0) for m in came[:3]] == [0, 1, 2]
        assert came[3]["result"] == "done"


# Back-pressure.


async def test_notify_waits_while_the_peer_does_not_read() -> None:
    async with with_raw_peer(serving(), limit_bytes=10_000) as sides:
        sides.other.transport.pause_reading()
        sent: list[int] = []

        async def stream() -> None:
            for n in range(500):
                await sides.ours.notify("reported", {"n": n, "text": "x" * 1000})
                sent.append(n)

        streaming = asyncio.create_task(stream())
        await drain_event_loop()
        held = len(sent)
        assert held < 200
        await drain_event_loop()
        assert len(sent) == held
        sides.other.transport.resume_reading()
        await streaming
        came = [(await sides.other.get())["params"]["n"] for _ in range(500)]
        assert came == list(range(500))


async def test_calls_wait_while_the_peer_does_not_read() -> None:
    async with with_raw_peer(serving(), limit_bytes=100) as sides:
        sides.other.transport.pause_reading()
        await sides.ours.notify("reported", {"text": "x" * 1000})
        await drain_event_loop()
        call = asyncio.create_task(ask(sides.ours))
        await drain_event_loop()
        sides.other.transport.resume_reading()
        assert (await sides.other.get())["method"] == "reported"
        asked = await sides.other.get()
        sides.other.answer(asked["id"], 1)
        assert await call == 1


async def test_waiting_sender_raises_when_the_connection_closes() -> None:
    async with with_raw_peer(serving(), limit_bytes=100) as sides:
        sides.other.transport.pause_reading()

        async def stream() -> None:
            while True:
                await sides.ours.notify("reported", {"text": "x" * 20_000})

        streaming = asyncio.create_task(stream())
        await drain_event_loop()
        await sides.ours.aclose()
        assert isinstance(await error_of(streaming), ConnectionClosed)


async def test_slow_handler_slows_the_peer_and_messages_stay_in_order() -> None:
    gate = asyncio.Event()
    handled: list[int] = []

    async def slow(params: Params, context: Any) -> None:
        await gate.wait()
        handled.append(params.n)

    def update(n: int) -> Any:
        return notification("update", {"sessionId": "s", "n": n})

    limits = structs.replace(QUICK, backlog_messages=10)
    async with with_raw_peer(serving(tell_update=slow), limits=limits, limit_bytes=1000) as sides:
        for n in range(40):
            sides.other.send(update(n))
            await drain_event_loop()
        assert sides.other.transport.congested
        gate.set()
        await drain_event_loop()
        assert not sides.other.transport.congested
        await drain_event_loop()
        assert handled == list(range(40))


async def test_reading_continues_while_a_handler_awaits_a_response() -> None:
    handled: list[Any] = []

    async def handle(params: Params, context: Any) -> None:
        if params.n == 0:
            handled.append(await ask(sides.ours))
        handled.append(params.n)

    limits = structs.replace(QUICK, backlog_messages=2)
    async with with_raw_peer(serving(tell_update=handle), limits=limits) as sides:
        sides.other.send(*(notification("update", {"n": n}) for n in range(20)))
        asked = await sides.other.get()
        sides.other.answer(asked["id"], "answer")
        await drain_event_loop()
        await drain_event_loop()
        assert handled == ["answer", *range(20)]


@pytest.mark.parametrize(
    "limit",
    [{"max_backlog_messages": 10}, {"max_backlog_bytes": 10_000}, {"total_backlog_bytes": 10_000}],
)
async def test_session_over_its_limits_fails_alone(limit: dict[str, int]) -> None:
    failed: list[BaseException] = []
    reported: list[Any] = []

    async def handle(params: Params, context: Any) -> None:
        failed.append(await error_of(ask(sides.ours)))

    routes = serving(tell_update=handle, ask_permission=lambda p, c: "yes")
    routes.on_backlog_exceeded = lambda session, error: reported.append((session, error))
    limits = structs.replace(QUICK, backlog_bytes=100, **limit)
    async with with_raw_peer(routes, limits=limits) as sides:
        sides.other.tell("update", {"sessionId": "s"})
        await sides.other.get()
        same = asyncio.create_task(call_of(sides.ours, "s"))
        other = asyncio.create_task(call_of(sides.ours, "t"))
        asked = {m["params"]["sessionId"]: m["id"] for m in [await sides.other.get() for _ in "12"]}
        flood = {"sessionId": "s", "x": "x" * 1000}
        sides.other.send(*(notification("update", flood) for _ in range(20)))
        error = await error_of(same)
        assert isinstance(error, BacklogExceeded)
        assert error.limit == next(iter(limit))
        assert reported == [("s", error)]
        await drain_event_loop()
        assert failed[0] is error  # the handler that blocked the session
        sides.other.answer(asked["t"], "fine")
        assert await other == "fine"
        cancelled = [(await sides.other.get())["method"] for _ in range(2)]
        assert cancelled == ["$/cancel_request"] * 2


async def call_of(connection: Connection, session: str) -> Any:
    return await connection.call("it", Params(session_id=session), any_json, session=session)


async def test_requests_over_the_message_limit_of_a_session_are_answered() -> None:
    gate = asyncio.Event()

    async def handle(params: Params, context: Any) -> None:
        await gate.wait()

    limits = structs.replace(QUICK, max_backlog_messages=5)
    routes = serving(tell_update=handle, ask_it=lambda p, c: "done")
    async with with_raw_peer(routes, limits=limits) as sides:
        sides.other.tell("update", {"sessionId": "s"})
        sides.other.send(*(request(n, "it", {"sessionId": "s"}) for n in range(8)))
        for n in (6, 7):
            refused = await sides.other.get()
            assert (refused["id"], refused["error"]["code"]) == (n, -32603)
            assert "Limits.max_backlog_messages" in refused["error"]["message"]
        gate.set()
        assert [(await sides.other.get())["id"] for _ in range(6)] == list(range(6))


async def test_requests_over_the_byte_limit_are_answered() -> None:
    gate = asyncio.Event()

    async def handle(params: Params, context: Any) -> None:
        await gate.wait()

    limits = structs.replace(QUICK, total_backlog_bytes=1000)
    async with with_raw_peer(serving(ask_it=handle), limits=limits) as sides:
        for again in range(2):  # handled messages no longer count
            for n in range(4):
                sides.other.ask(f"{again} {n}", "it", {"sessionId": "s" * 400})
            for n in (2, 3):
                refused = await sides.other.get()
                assert (refused["id"], refused["error"]["code"]) == (f"{again} {n}", -32603)
            gate.set()
            assert {(await sides.other.get())["id"] for _ in range(2)} == {
                f"{again} 0",
                f"{again} 1",
            }
            gate.clear()
        sides.other.ask("large", "it", {"sessionId": "s" * 4000})  # the only one is handled
        gate.set()
        assert "result" in await sides.other.get()


async def test_invented_sessions_take_a_limited_number_of_tasks() -> None:
    gate = asyncio.Event()
    handled: list[str | None] = []

    async def handle(params: Params, context: Any) -> None:
        await gate.wait()
        handled.append(params.session_id)

    routes = serving(tell_update=handle, ask_it=lambda p, c: "done")
    async with with_raw_peer(routes) as sides:
        before, count = len(asyncio.all_tasks()), MAX_LANES + 1000
        for first in range(0, count, 1000):
            sides.other.send(
                *(
                    notification("update", {"sessionId": f"{first + n}"})
                    for n in range(min(1000, count - first))
                )
            )
        await drain_event_loop()
        assert await sides.other.result_of(0, "it", {"sessionId": "new"}) == "done"
        assert len(asyncio.all_tasks()) - before <= MAX_LANES + 1
        gate.set()
        while len(handled) < count:
            await drain_event_loop()
        assert len(set(handled)) == count


async def test_slow_handler_does_not_delay_responses_to_others() -> None:
    gate = asyncio.Event()

    async def slow(params: Params, context: Any) -> None:
        await gate.wait()

    limits = structs.replace(QUICK, backlog_messages=10)
    async with with_raw_peer(serving(tell_update=slow), limits=limits, limit_bytes=1000) as sides:
        await congest(sides)
        call = asyncio.create_task(ask(sides.ours))  # for no session
        await sides.other.get()
        await drain_event_loop()
        assert not sides.other.transport.congested
        sides.other.answer(0, "read")
        assert await call == "read"
        await congest(sides)
        call = asyncio.create_task(call_of(sides.ours, "s"))  # it waits for the handler in any case
        await sides.other.get()
        await drain_event_loop()
        assert sides.other.transport.congested
        call.cancel()
        other = asyncio.create_task(call_of(sides.ours, "t"))
        await drain_event_loop()
        assert not sides.other.transport.congested
        other.cancel()
        await drain_event_loop()
        for _ in range(40):  # a second session exists now, and it could send a request
            sides.other.tell("update", {"sessionId": "s"})
            await drain_event_loop()
        assert not sides.other.transport.congested
        gate.set()


async def congest(sides: Any) -> None:
    """Send updates of a session until they are no longer read."""
    while not sides.other.transport.congested:
        sides.other.tell("update", {"sessionId": "s"})
        await drain_event_loop()


async def test_sides_that_wait_for_each_other_to_read_do_not_deadlock() -> None:
    """Both sides notify from a handler while their own handlers lag."""
    count = 200
    seen: dict[str, int] = {"left": 0, "right": 0}

    def side(name: str) -> Any:
        async def on_update(params: Params, context: Any) -> None:
            seen[name] += 1
            if params.n:
                other = left if name == "left" else right
                await other.notify("update", {"sessionId": "s", "n": 0, "text": "x" * 5000})

        return serving(tell_update=on_update)

    limits = structs.replace(QUICK, backlog_messages=2)
    async with (
        asyncio.timeout(10),
        two_connections(side("left"), side("right"), limits=limits, limit_bytes=1000) as (
            left,
            right,
        ),
    ):

        async def stream(connection: Connection) -> None:
            for _ in range(count):
                await connection.notify("update", {"sessionId": "s", "n": 1, "text": "x" * 5000})

        await asyncio.gather(stream(left), stream(right))
        while sum(seen.values()) < 4 * count:
            await asyncio.sleep(0)


async def test_responses_are_read_while_the_peer_does_not_read() -> None:
    limits = structs.replace(QUICK, unread_responses_bytes=1000, total_backlog_bytes=100_000)
    routes = serving(ask_it=lambda p, c: "x" * 500)
    async with with_raw_peer(routes, limits=limits, limit_bytes=1000) as sides:
        call = asyncio.create_task(ask(sides.ours))
        asked = await sides.other.get()
        sides.other.transport.pause_reading()
        for n in range(50):
            sides.other.ask(n, "it")
            await drain_event_loop()
        sides.other.answer(asked["id"], "read")
        assert await call == "read"
        ending = asyncio.create_task(ask(sides.ours))  # waits, because the backlog is not read
        await drain_event_loop()
        for n in range(50, 400):
            sides.other.ask(n, "it")
            await drain_event_loop()
        assert isinstance(await error_of(ending), ConnectionLost)


# Observers.


async def test_observers_see_every_frame_in_both_directions() -> None:
    seen: list[tuple[str, Any]] = []

    def observe(direction: str, frame: bytes | bytearray) -> None:
        seen.append((direction, frame if frame == b"{" else json.loads(frame)))

    async with with_raw_peer(serving(ask_it=lambda p, c: 1)) as sides:
        sides.ours.observe(observe)
        await sides.ours.notify("reported", {})
        sides.other.send(request(1, "it"), b"{", success(9, 1))
        for _ in range(3):
            await sides.other.get()
    assert [direction for direction, _ in seen].count("received") == 3
    assert ("received", request(1, "it")) in seen
    assert ("received", b"{") in seen
    assert ("received", success(9, 1)) in seen
    assert ("sent", notification("reported", {})) in seen
    assert ("sent", success(1, 1)) in seen
    assert [m["error"]["code"] for d, m in seen if d == "sent" and "error" in m] == [-32700]


# Bad frames.


async def test_frame_over_the_limit_is_answered_and_skipped() -> None:
    here, there = pair(frame_bytes=200)
    async with both_started(here, there) as (ours, other):
        other.send(request(1, "it", {"x": "x" * 300}), request(2, "it"))
        came = [await other.get(), await other.get()]
        assert {(m["id"], "error" in m) for m in came} == {(1, True), (2, False)}
        assert ours.transport is here


async def test_frame_over_the_limit_without_a_readable_id_is_answered_with_null() -> None:
    here, there = pair(frame_bytes=200)
    async with both_started(here, there) as (ours, other):
        other.send(b'{"jsonrpc":"2.0","method":"it","params":{"x":"%b"},"id":1}' % (b"x" * 9000))
        assert (await other.get())["id"] is None
        assert not ours.has_ended


async def test_call_fails_if_its_response_is_over_the_limit() -> None:
    here, there = pair(frame_bytes=200)
    async with both_started(here, there) as (ours, other):
        call = asyncio.create_task(ask(ours))
        other.answer((await other.get())["id"], "x" * 300)
        error = await error_of(call)
        assert isinstance(error, RemoteProtocolError)
        assert str(error) == "it: the response is too large: The frame exceeds 200 bytes"
        assert ours.transport is here


async def test_frame_over_the_limit_raises_at_the_sender() -> None:
    here, there = pair(frame_bytes=200)
    async with both_started(here, there) as (ours, other):
        for sending in (ask_with(ours, "x" * 300), ours.notify("reported", {"x": "x" * 300})):
            error = await error_of(sending)
            assert isinstance(error, FrameTooLarge)
            assert (error.limit_bytes, error.method in ("it", "reported")) == (200, True)
            assert error.method in str(error)
            assert str(error.size_bytes) in str(error)
            assert "200" in str(error)
        assert not ours.has_ended
        await drain_event_loop()
        assert other.inbox.empty()


async def ask_with(connection: Connection, text: str) -> Any:
    return await connection.call("it", {"text": text}, any_json)


@pytest.mark.parametrize("later", [False, True])
async def test_result_over_the_limit_is_answered_with_an_error(later: bool) -> None:
    async def in_a_task(params: Params, context: Any) -> str:
        await asyncio.sleep(0)
        return "x" * 300

    here, there = pair(frame_bytes=270)
    routes = serving(ask_it=in_a_task if later else lambda p, c: "x" * 300)
    async with both_started(here, there, routes) as (_, other):
        error = await other.error_of(1, "it")
        assert error["code"] == -32603
        assert error["message"].startswith("The result of it is too large: ")
        assert error["data"]["limit"] == 270


@requirement("R-GEN-06")
@pytest.mark.parametrize("wrong", ["0", 0.0])
async def test_call_fails_if_its_response_has_the_id_in_another_type(wrong: Any) -> None:
    async with with_raw_peer(serving()) as sides:
        call, other = asyncio.create_task(ask(sides.ours)), asyncio.create_task(ask(sides.ours))
        await sides.other.get()
        await sides.other.get()
        sides.other.answer(wrong, "done")
        error = await error_of(call)
        assert isinstance(error, RemoteProtocolError)
        assert f"the response has the id {json.dumps(wrong)}, the request has 0" in str(error)
        sides.other.answer(1, "done")
        assert await other == "done"


@requirement("R-GEN-06")
@pytest.mark.parametrize(
    "wrong", ["00", " 0", "x", 5, 0.5, True, None, [0], {"0": 0}, 10**30, 1e300]
)
async def test_responses_without_a_request_are_logged_once(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with with_raw_peer(serving()) as sides:
        call = asyncio.create_task(ask(sides.ours))
        await sides.other.get()
        for _ in range(100):
            sides.other.answer(wrong, "done")
        await drain_event_loop()
        assert not call.done()
        sides.other.answer(0, "done")
        assert await call == "done"
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "! ignored a message: a response that matches no request"
    ]


@pytest.mark.parametrize("depth", [*range(700, 1000, 20)])
async def test_params_of_any_depth_are_answered_once(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    async with with_raw_peer(serving(ask_it=lambda p, c: 1, ask_any=lambda p, c: 1)) as sides:
        sides.other.send(b'{"jsonrpc":"2.0","id":1,"method":"it","params":{"n":%b}}' % deep)
        assert (await sides.other.get())["error"]["code"] in (-32602, -32700)
        assert await sides.other.result_of(2, "it") == 1


async def test_ids_with_lone_surrogates_are_answered() -> None:
    async with with_raw_peer(serving(ask_it=lambda p, c: 1)) as sides:
        assert await sides.other.result_of("\ud800", "it") == 1


# The end.


def both_started(here: Any, there: Any, routes: Any = None) -> Any:
    """Like `with_raw_peer`, on a given pair."""
    from contextlib import asynccontextmanager

    from raw_peer import RawPeer

    @asynccontextmanager
    async def run() -> AsyncGenerator[Any, None]:
        ours, other = Connection(here, limits=QUICK), RawPeer(there)
        await ours.start(routes or serving(ask_it=lambda p, c: 1))
        await there.start(other)
        try:
            yield ours, other
        finally:
            await ours.aclose()
            await there.aclose()

    return run()


async def test_close_fails_pending_and_later_calls() -> None:
    async with with_raw_peer(serving()) as sides:
        call = asyncio.create_task(ask(sides.ours))
        await sides.other.get()
        await sides.ours.aclose()
        assert isinstance(await error_of(call), ConnectionClosed)
        with pytest.raises(ConnectionClosed):
            await ask(sides.ours)
        with pytest.raises(ConnectionClosed):
            await sides.ours.notify("reported", {})
        await sides.ours.wait_ended()


async def test_close_ends_the_peer_after_all_sent_frames() -> None:
    async with with_raw_peer(serving()) as sides:
        await sides.ours.notify("reported", {})
        await sides.ours.aclose()
        assert (await sides.other.get())["method"] == "reported"
        await sides.other.ended.wait()


@requirement("R-REQCAN-13", "R-REQCAN-08")
async def test_close_cancels_handlers_and_answers_their_requests() -> None:
    ended: list[int] = []

    async def handle(params: Params, context: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(params.n)

    async with with_raw_peer(serving(ask_it=handle, tell_it=handle)) as sides:
        sides.other.send(request(1, "it", {"n": 1}), notification("it", {"n": 2}))
        await drain_event_loop()
        await sides.ours.aclose()
        assert sorted(ended) == [1, 2]
        assert (await sides.other.get())["error"]["code"] == -32800


async def test_close_works_twice_and_before_the_start() -> None:
    here, there = pair()
    connection = Connection(here, limits=QUICK)
    await asyncio.gather(connection.aclose(), connection.aclose())
    await connection.aclose()
    await connection.wait_ended()
    with pytest.raises(TransportError):
        await connection.start(serving())
    await there.aclose()


async def test_handler_can_close_the_connection() -> None:
    closed: list[str] = []

    async def handle(params: Params, context: Any) -> None:
        await sides.ours.aclose()
        closed.append("returned")

    async with with_raw_peer(serving(ask_it=handle)) as sides:
        sides.other.ask(1, "it")
        await sides.ours.wait_ended()
        assert closed == ["returned"]
        await sides.other.ended.wait()


async def test_handler_that_does_not_stop_does_not_block_the_close(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release = asyncio.Event()

    async def stubborn(params: Params, context: Any) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    limits = structs.replace(QUICK, close_timeout_s=0.01)
    async with with_raw_peer(serving(ask_it=stubborn), limits=limits) as sides:
        sides.other.ask(1, "it")
        await drain_event_loop()
        await sides.ours.aclose()
        assert "does not stop" in caplog.text
        release.set()
        await drain_event_loop()


async def test_messages_received_during_the_close_are_not_handled() -> None:
    handled: list[str] = []
    gate = asyncio.Event()

    async def slow_to_end(params: Params, context: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await gate.wait()

    async def late(params: Params, context: Any) -> None:
        handled.append("late")
        await asyncio.Event().wait()

    async with with_raw_peer(serving(ask_slow=slow_to_end, ask_late=late, tell_late=late)) as sides:
        before = asyncio.all_tasks()
        sides.other.ask(1, "slow")
        await drain_event_loop()
        closing = asyncio.create_task(sides.ours.aclose())
        await drain_event_loop()
        sides.other.send(request(2, "late"), notification("late"))
        await drain_event_loop()
        gate.set()
        await closing
        await drain_event_loop()
        assert handled == []
        assert asyncio.all_tasks() == before


async def test_disconnected_peer_fails_pending_calls() -> None:
    async with with_raw_peer(serving()) as sides:
        call = asyncio.create_task(ask(sides.ours))
        await sides.other.get()
        await sides.other.hang_up()
        assert isinstance(await error_of(call), ConnectionLost)
        with pytest.raises(ConnectionLost):
            await ask(sides.ours)
        await sides.ours.wait_ended()


async def test_peer_that_sends_back_what_it_receives_is_rejected_with_that_reason() -> None:
    async with with_raw_peer(serving()) as sides:
        sides.ours.hold()
        call = asyncio.create_task(ask(sides.ours))
        asked = await sides.other.get()
        sides.other.ask(asked["id"], "initialize")
        expected = "The peer sends back what it receives: it is not an agent"
        assert str(await error_of(call)) == expected
        assert str(await sides.ours.wait_ended()) == expected
        assert str(await error_of(asyncio.create_task(ask(sides.ours)))) == expected


async def test_request_received_before_the_disconnect_has_time_to_finish() -> None:
    gate = asyncio.Event()
    ended: list[str] = []

    async def handle(params: Params, context: Any) -> None:
        await gate.wait()
        ended.append("done")

    limits = structs.replace(QUICK, eof_grace_s=10)
    async with with_raw_peer(serving(ask_it=handle), limits=limits) as sides:
        sides.other.ask(1, "it")
        await drain_event_loop()
        await sides.other.hang_up()
        await drain_event_loop()
        gate.set()
        await sides.ours.wait_ended()
        assert ended == ["done"]


async def test_task_started_by_a_request_has_time_to_finish_too() -> None:
    gate = asyncio.Event()
    ended: list[str] = []

    async def work() -> None:
        await gate.wait()
        ended.append("done")

    async def handle(params: Params, context: Any) -> None:
        await answer.wait()
        sides.ours.spawn(work())

    answer = asyncio.Event()
    limits = structs.replace(QUICK, eof_grace_s=10)
    async with with_raw_peer(serving(ask_it=handle), limits=limits) as sides:
        sides.other.ask(1, "it")
        await drain_event_loop()
        await sides.other.hang_up()
        await drain_event_loop()
        answer.set()
        await drain_event_loop()
        gate.set()
        await sides.ours.wait_ended()
        assert ended == ["done"]


async def test_many_requests_after_a_disconnect_take_no_longer_than_one() -> None:
    """With 10,000 requests it took 18 s: each that ended waited for all others again."""
    count = 10_000
    ended = 0
    gates = [asyncio.Event() for _ in range(2_000)]

    async def handle(params: Params, context: Any) -> None:
        nonlocal ended
        try:
            await gates[params.n % len(gates)].wait()
        finally:
            ended += 1

    limits = structs.replace(QUICK, eof_grace_s=5)
    async with with_raw_peer(serving(ask_it=handle), limits=limits) as sides:
        sides.other.send(*(request(n, "it", {"n": n}) for n in range(count)))
        await drain_event_loop()
        await sides.other.hang_up()
        async with asyncio.timeout(5):
            for gate in gates:  # one by one, while the connection waits for them
                gate.set()
                await asyncio.sleep(0)
            await sides.ours.wait_ended()
    assert ended == count


async def test_task_that_exceeds_its_time_after_the_disconnect_is_cancelled() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with with_raw_peer(serving()) as sides:
        sides.ours.spawn(work())
        await drain_event_loop()
        await sides.other.hang_up()
        await sides.ours.wait_ended()
        assert ended == ["cancelled"]


async def test_request_that_exceeds_its_time_after_the_disconnect_is_cancelled() -> None:
    ended: list[str] = []

    async def handle(params: Params, context: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with with_raw_peer(serving(ask_it=handle)) as sides:
        sides.other.ask(1, "it")
        await drain_event_loop()
        await sides.other.hang_up()
        await sides.ours.wait_ended()
        assert ended == ["cancelled"]


@pytest.mark.parametrize(
    "prepare",
    [
        lambda s: None,
        lambda s: s.other.ask(1, "it"),
        lambda s: s.other.tell("it"),
        lambda s: s.other.send(b"{", b"[]"),
        lambda s: s.other.transport.pause_reading(),
    ],
    ids=["idle", "request", "notification", "rubbish", "paused"],
)
@pytest.mark.parametrize("hang_up", [False, True])
@pytest.mark.parametrize("turns", range(6))
async def test_close_ends_in_any_state(
    prepare: Callable[[Any], None], hang_up: bool, turns: int
) -> None:
    async with with_raw_peer(serving(ask_it=forever, tell_it=forever)) as sides:
        before = asyncio.all_tasks()
        prepare(sides)
        call = asyncio.create_task(ask(sides.ours))
        if hang_up:
            await sides.other.hang_up()
        for _ in range(turns):
            await asyncio.sleep(0)
        await sides.ours.aclose()
        assert isinstance(await error_of(call), TransportError)
        await sides.ours.wait_ended()
        assert asyncio.all_tasks() == before


async def test_internal_error_affects_one_message_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def decode(_text: object) -> object:
        raise ZeroDivisionError("secret")

    routes = serving()
    routes.requests["broken"] = Route(decode=decode, handler=lambda _params, _context: None)
    async with with_raw_peer(routes) as sides:
        sides.other.send(
            {"jsonrpc": "2.0", "id": 1, "method": "broken"},
            {"jsonrpc": "2.0", "id": 2, "method": "nowhere"},
        )
        answers = [await sides.other.get(), await sides.other.get()]
    assert [answer["error"]["code"] for answer in answers] == [-32603, -32601]
    assert "secret" not in str(answers)
    assert "could not handle" in caplog.text


async def test_task_cancelled_before_its_first_step_is_discarded() -> None:
    async def work() -> None:
        raise AssertionError("it does not begin")

    async with with_raw_peer(serving()) as sides:
        begun = work()
        closing = asyncio.ensure_future(sides.ours.aclose())
        await asyncio.sleep(0)
        sides.ours.spawn(begun)  # close cancels it in the next iteration of the loop
        await closing
    assert inspect.getcoroutinestate(begun) == inspect.CORO_CLOSED
