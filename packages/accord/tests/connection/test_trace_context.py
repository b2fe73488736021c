"""The trace of a request is continued in all messages that its handler sends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import UNSET

from accord.connection.routes import TRACE_KEYS, Context, current_trace
from event_loop import drain_event_loop
from raw_peer import Params, any_json, serving, with_raw_peer
from requirement import requirement

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = {"traceparent": PARENT, "tracestate": "a=b", "baggage": "k=v"}


@requirement("R-EXT-02")
@pytest.mark.parametrize("delayed", [False, True])
async def test_handler_has_the_trace_of_its_request(delayed: bool) -> None:
    def now(params: Params, context: Any) -> Any:
        return current_trace()

    async def later(params: Params, context: Any) -> Any:
        await asyncio.sleep(0)
        return Context(sides.ours, 1).trace

    async with with_raw_peer(serving(ask_it=later if delayed else now)) as sides:
        meta = {**TRACE, "other": 1}
        assert await sides.other.result_of(1, "it", {"_meta": meta}) == TRACE
        assert await sides.other.result_of(2, "it", {"_meta": {"other": 1}}) == {}
        assert await sides.other.result_of(3, "it") == {}


@requirement("R-EXT-02")
@pytest.mark.parametrize(
    ("params", "sent"),
    [
        (Params(n=1), {"n": 1, "_meta": TRACE}),
        (Params(meta={"x": 1}), {"_meta": {**TRACE, "x": 1}}),
        (Params(meta={"baggage": "own"}), {"_meta": {**TRACE, "baggage": "own"}}),
        ({"n": 1}, {"n": 1, "_meta": TRACE}),
        ({"_meta": {"x": 1}}, {"_meta": {**TRACE, "x": 1}}),
        ([1], [1]),
        (UNSET, UNSET),
    ],
    ids=str,
)
async def test_messages_of_a_handler_have_the_trace(params: Any, sent: Any) -> None:
    async def handle(_params: Params, context: Any) -> None:
        await sides.ours.notify("reported", params)
        await sides.ours.call("asked", params, any_json)

    async with with_raw_peer(serving(ask_it=handle)) as sides:
        sides.other.ask(1, "it", {"_meta": TRACE})
        reported, asked = await sides.other.get(), await sides.other.get()
        assert reported.get("params", UNSET) == asked.get("params", UNSET) == sent
        sides.other.answer(asked["id"], None)
        await sides.other.get()


async def test_traces_of_requests_do_not_mix() -> None:
    async def handle(params: Params, context: Any) -> Any:
        await drain_event_loop()
        return current_trace()

    async with with_raw_peer(serving(ask_it=handle)) as sides:
        for n in range(3):
            sides.other.ask(n, "it", {"_meta": {"traceparent": f"{n}"}})
        answers = [await sides.other.get() for _ in range(3)]
        assert [a["result"] for a in answers] == [{"traceparent": f"{n}"} for n in range(3)]


async def test_params_without_a_trace_are_sent_unchanged() -> None:
    async with with_raw_peer(serving()) as sides:
        await sides.ours.notify("reported", Params(n=1))
        assert (await sides.other.get())["params"] == {"n": 1}


def test_keys_are_those_of_w3c() -> None:
    assert TRACE_KEYS == ("traceparent", "tracestate", "baggage")
