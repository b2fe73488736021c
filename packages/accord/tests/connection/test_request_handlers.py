"""Request handlers: each request is answered exactly once, whatever its handler does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec import structs

from accord.errors import AuthRequired, InvalidParams, RequestError
from event_loop import drain_event_loop
from raw_peer import QUICK, Params, any_json, cancel, request, serving, with_raw_peer
from requirement import requirement


async def forever(params: Params, context: Any) -> None:
    await asyncio.Event().wait()


@requirement("R-EXT-05")
async def test_results_can_be_returned_or_awaited() -> None:
    async def later(params: Params, context: Any) -> Any:
        return {"n": params.n}

    async with with_raw_peer(serving(ask_now=lambda p, c: [p.n], ask_later=later)) as sides:
        assert await sides.other.result_of(1, "now", {"n": 3}) == [3]
        assert await sides.other.result_of("x", "later", {"n": 4}) == {"n": 4}


@requirement("R-GEN-09")
@pytest.mark.parametrize("params", [{}, {"params": None}, {"params": {}}])
async def test_absent_and_null_params_are_empty(params: Any) -> None:
    async with with_raw_peer(serving(ask_now=lambda p, c: p.n)) as sides:
        sides.other.send({"jsonrpc": "2.0", "id": 1, "method": "now", **params})
        assert (await sides.other.get())["result"] == 0


@requirement("R-GEN-11", "R-ERR-05")
async def test_invalid_params_are_rejected_with_the_path() -> None:
    async with with_raw_peer(serving(ask_now=lambda p, c: p.n)) as sides:
        error = await sides.other.error_of(1, "now", {"n": "three"})
        assert error["code"] == -32602
        assert error["data"]["path"] == "$.n"
        assert await sides.other.result_of(2, "now") == 0


@requirement("R-EXT-06")
async def test_unknown_method_is_not_found() -> None:
    async with with_raw_peer(serving()) as sides:
        error = await sides.other.error_of(1, "nothing", {"a": 1})
        assert (error["code"], error["data"]) == (-32601, {"method": "nothing"})


async def test_long_method_name_is_shortened_in_the_error() -> None:
    async with with_raw_peer(serving()) as sides:
        error = await sides.other.error_of(1, "x" * 100_000)
        assert error["data"]["method"] == "x" * 199 + "…"
        assert len(error["message"]) < 300


@requirement("R-GEN-05", "R-EXT-07", "R-REQCAN-10")
async def test_notification_is_never_answered() -> None:
    def fails(params: Params, context: Any) -> None:
        raise RequestError("not even this")

    async with with_raw_peer(serving(tell_fails=fails, ask_ping=lambda p, c: 1)) as sides:
        for method in ("fails", "unknown", "$/unknown", "_unknown"):
            sides.other.tell(method)
        sides.other.tell("fails", {"n": "wrong"})
        assert await sides.other.result_of(1, "ping") == 1


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize(
    "error", [AuthRequired(), InvalidParams("Bad", data=[1]), RequestError("Odd", code=77)]
)
async def test_request_error_is_sent_unchanged(error: RequestError, delayed: bool) -> None:
    async def later(params: Params, context: Any) -> None:
        raise error

    def now(params: Params, context: Any) -> None:
        raise error

    async with with_raw_peer(serving(ask_it=later if delayed else now)) as sides:
        came = await sides.other.error_of(1, "it")
        assert (came["code"], came["message"], came.get("data")) == (
            error.code,
            error.message,
            error.data,
        )


@requirement("R-ERR-05")
@pytest.mark.parametrize("delayed", [False, True])
async def test_other_exceptions_are_not_revealed_to_the_peer(
    delayed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def later(params: Params, context: Any) -> None:
        raise ValueError("secret")

    def now(params: Params, context: Any) -> None:
        raise OSError("secret")

    async with with_raw_peer(serving(ask_it=later if delayed else now)) as sides:
        error = await sides.other.error_of(1, "it")
        assert error == {"code": -32603, "message": "Internal error"}
    assert "secret" in caplog.text


class Odd(BaseException):
    """Derives from neither `Exception` nor the exceptions that end a program."""


@requirement("R-ERR-05")
@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize(
    "error", [Odd(), GeneratorExit(), BaseExceptionGroup("of tasks", [Odd()])], ids=repr
)
async def test_base_exception_is_answered_too(error: BaseException, delayed: bool) -> None:
    async def later(params: Params, context: Any) -> None:
        raise error

    def now(params: Params, context: Any) -> None:
        raise error

    async with with_raw_peer(serving(ask_it=later if delayed else now)) as sides:
        sides.other.send(request(1, "it"), request(2, "it"))
        for _ in range(2):
            assert (await sides.other.get())["error"]["code"] == -32603


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_exception_that_ends_the_program_is_answered_first(
    error: BaseException, delayed: bool
) -> None:
    async def later(params: Params, context: Any) -> None:
        raise error

    def now(params: Params, context: Any) -> None:
        raise error

    sent: list[bytes] = []

    def note(way: str, frame: Any) -> None:
        if way == "sent":
            sent.append(bytes(frame))

    async def serve() -> None:
        async with with_raw_peer(serving(ask_it=later if delayed else now)) as sides:
            sides.ours.observe(note)
            sides.other.send(request(1, "it"))
            await asyncio.Event().wait()

    with pytest.raises(type(error)):
        asyncio.run(serve())
    assert [json.loads(frame)["error"]["code"] for frame in sent] == [-32603]


async def test_discarded_handler_is_not_answered() -> None:
    async def forever_here(params: Params, context: Any) -> None:
        await asyncio.Event().wait()

    async with with_raw_peer(serving(ask_it=forever_here)) as sides:
        sides.other.send(request(1, "it"))
        await drain_event_loop()
        (task,) = (t for t in asyncio.all_tasks() if t.get_name() == "accord it")
        coroutine: Any = task.get_coro()
        coroutine.close()
        assert sides.other.inbox.empty()


async def test_result_that_cannot_be_encoded_is_an_internal_error() -> None:
    async with with_raw_peer(serving(ask_it=lambda p, c: object())) as sides:
        assert (await sides.other.error_of(1, "it"))["code"] == -32603


async def test_error_data_that_cannot_be_encoded_is_omitted() -> None:
    def fails(params: Params, context: Any) -> None:
        raise RequestError("Odd", code=77, data=object())

    async with with_raw_peer(serving(ask_it=fails)) as sides:
        assert await sides.other.error_of(1, "it") == {"code": 77, "message": "Odd"}


async def test_requests_start_in_order_and_are_answered_when_done() -> None:
    begun: list[int] = []
    gates = [asyncio.Event() for _ in range(3)]

    async def handle(params: Params, context: Any) -> int:
        begun.append(params.n)
        await gates[params.n].wait()
        return params.n

    async with with_raw_peer(serving(ask_it=handle)) as sides:
        sides.other.send(*(request(n, "it", {"n": n}) for n in range(3)))
        await drain_event_loop()
        assert begun == [0, 1, 2]
        for n in (2, 0, 1):
            gates[n].set()
            assert (await sides.other.get())["result"] == n


async def test_requests_over_the_limit_are_rejected_until_one_is_done() -> None:
    gate = asyncio.Event()

    async def handle(params: Params, context: Any) -> None:
        await gate.wait()

    limits = structs.replace(QUICK, requests=2)
    async with with_raw_peer(serving(ask_it=handle), limits=limits) as sides:
        sides.other.send(*(request(n, "it") for n in range(3)))
        refused = await sides.other.get()
        assert (refused["id"], refused["error"]["code"]) == (2, -32603)
        gate.set()
        assert {(await sides.other.get())["id"] for _ in range(2)} == {0, 1}
        assert await sides.other.result_of(3, "it") is None


# Cancelling.


@requirement("R-REQCAN-03", "R-REQCAN-05", "R-REQCAN-13")
async def test_cancelled_request_is_answered_with_an_error() -> None:
    ended: list[str] = []

    async def handle(params: Params, context: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    async with with_raw_peer(serving(ask_it=handle)) as sides:
        sides.other.ask(1, "it")
        await drain_event_loop()
        sides.other.send(cancel(1))
        answer = await sides.other.get()
        assert (answer["id"], answer["error"]["code"]) == (1, -32800)
        assert ended == ["cleaned up"]


@requirement("R-REQCAN-05")
async def test_request_cancelled_before_its_first_step_is_answered() -> None:
    async with with_raw_peer(serving(ask_it=forever)) as sides:
        sides.other.send(request(1, "it"), cancel(1))
        assert (await sides.other.get())["error"]["code"] == -32800
        await drain_event_loop()
        assert sides.other.inbox.empty()


@requirement("R-REQCAN-05")
@pytest.mark.parametrize("together", [False, True])
async def test_cancelled_request_is_answered_with_the_cancelled_result_of_its_method(
    together: bool,
) -> None:
    async with with_raw_peer(serving(ask_it=forever, cancelled=lambda: {"gone": True})) as sides:
        if together:
            sides.other.send(request(1, "it"), cancel(1))
        else:
            sides.other.ask(1, "it")
            await drain_event_loop()
            sides.other.send(cancel(1))
        assert (await sides.other.get())["result"] == {"gone": True}


@requirement("R-REQCAN-13")
async def test_handler_that_finishes_despite_a_cancel_is_answered_with_its_result() -> None:
    async def stubborn(params: Params, context: Any) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "partial"
        return "never"

    async with with_raw_peer(serving(ask_it=stubborn)) as sides:
        sides.other.ask(1, "it")
        await drain_event_loop()
        sides.other.send(cancel(1))
        assert (await sides.other.get())["result"] == "partial"


@requirement("R-CANCEL-06")
async def test_exception_after_a_cancel_is_answered_with_the_cancelled_result() -> None:
    async def breaks(params: Params, context: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("aborted") from None

    async with with_raw_peer(serving(ask_it=breaks, cancelled=lambda: "cancelled")) as sides:
        sides.other.ask(1, "it")
        await drain_event_loop()
        sides.other.send(cancel(1))
        assert (await sides.other.get())["result"] == "cancelled"


@requirement("R-REQCAN-06")
async def test_late_or_unknown_cancel_is_ignored() -> None:
    async with with_raw_peer(serving(ask_it=lambda p, c: 1)) as sides:
        assert await sides.other.result_of(1, "it") == 1
        sides.other.send(cancel(1), cancel(99), cancel(None))
        assert await sides.other.result_of(2, "it") == 1


async def test_only_matching_requests_are_cancelled() -> None:
    async with with_raw_peer(serving(ask_it=forever)) as sides:
        sides.other.send(*(request(n, "it", {"n": n}) for n in range(3)))
        await drain_event_loop()
        sides.ours.cancel_where(lambda method, params: method == "it" and params.n == 1)
        assert (await sides.other.get())["id"] == 1
        await drain_event_loop()
        assert sides.other.inbox.empty()


async def test_handler_whose_call_fails_by_a_disconnect_is_not_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ask(params: Params, context: Any) -> Any:
        return await sides.ours.call("back", params, any_json)

    async with with_raw_peer(serving(ask_ask=ask)) as sides:
        sides.other.send(request(1, "ask"))
        await sides.other.get()
        await sides.other.hang_up()
        await sides.ours.wait_ended()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
