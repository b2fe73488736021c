"""Handlers that wait delay only the later messages of their session, in one direction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from accord.errors import InvalidParams
from accord.proxy.handlers import (
    NotificationHandler,
    OrderedStage,
    PassingRequest,
    RequestHandler,
)
from accord.proxy.stage import Direction, Params, RawResponse, raw_json
from proxy.ends import joined
from requirement import requirement


def _update(session: str, text: str) -> bytes:
    return b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%b","t":"%b"}}' % (
        session.encode(),
        text.encode(),
    )


def _prompt(request_id: int, session: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"%b"}}' % (
        request_id,
        session.encode(),
    )


class _Slow(OrderedStage):
    """Holds the updates of session `a` until it is told to go on, and edits prompts."""

    def __init__(self) -> None:
        super().__init__()
        self.may_pass = asyncio.Event()
        self.after_response = asyncio.Event()
        self.after_response.set()

    def notification_handler(self, to: Direction, method: str) -> NotificationHandler | None:
        return self._update if method == "session/update" else None

    def request_handler(self, to: Direction, method: str) -> RequestHandler | None:
        return {
            "session/prompt": self._prompt,
            "session/new": self._prompt,
            "fails": self._fails,
        }.get(method)

    def _update(self, method: str, params: Params) -> Awaitable[None] | None:
        if b'"a"' not in bytes(params):  # type: ignore[arg-type]  # updates have params
            self.client.notify(method, params)
            return None
        return self._pass_later(method, params)

    async def _pass_later(self, method: str, params: Params) -> None:
        await self.may_pass.wait()
        self.client.notify(method, params)

    async def _prompt(self, request: PassingRequest) -> RawResponse:
        response = await request.forward(params=raw_json({"edited": True}))
        await self.after_response.wait()
        return RawResponse.of_result({"was": response.result is not None})

    def _fails(self, request: PassingRequest) -> RawResponse:
        raise InvalidParams("not these")


@requirement("R-PROXY-18", "R-PROXY-19")
async def test_waiting_handler_delays_only_its_session_and_direction() -> None:
    slow = _Slow()
    async with joined(slow) as ends:
        ends.client.write([_prompt(1, "a"), _prompt(2, "b")])
        await ends.agent_has(2)
        ends.agent.write(
            [
                _update("a", "1"),
                b'{"jsonrpc":"2.0","id":0,"result":{}}',
                _update("b", "2"),
                _update("a", "3"),
                b'{"jsonrpc":"2.0","id":1,"result":{}}',
            ]
        )
        assert b'"b"' in (await ends.client_has(2))[0]
        assert b'"id":2' in (await ends.client_has(2))[1]
        ends.client.write([b'{"jsonrpc":"2.0","method":"session/cancel"}'])
        assert b"session/cancel" in (await ends.agent_has(3))[2]
        assert len(ends.at_client.frames) == 2
        slow.may_pass.set()
        rest = (await ends.client_has(5))[2:]
        assert b'"t":"1"' in rest[0]
        assert b'"id":1' in rest[1]
        assert b'"t":"3"' in rest[2]


async def test_updates_after_a_response_wait_for_its_handler() -> None:
    slow = _Slow()
    slow.after_response.clear()
    async with joined(slow) as ends:
        ends.client.write([b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}'])
        await ends.agent_has(1)
        # The session is new: only the order shows that the update belongs to it.
        ends.agent.write([b'{"jsonrpc":"2.0","id":0,"result":{"sessionId":"n"}}'])
        ends.agent.write([_update("n", "1"), b'{"jsonrpc":"2.0","id":9,"method":"late"}'])
        ends.client.write([b'{"jsonrpc":"2.0","method":"k"}'])
        await ends.agent_has(2)
        assert ends.at_client.frames == []
        slow.after_response.set()
        received = await ends.client_has(3)
        assert b'"was":true' in received[0]
        assert b'"t":"1"' in received[1]
        assert b'"late"' in received[2]


async def test_message_without_a_session_waits_for_earlier_ones() -> None:
    slow = _Slow()
    async with joined(slow) as ends:
        ends.agent.write([_update("a", "1"), b'{"jsonrpc":"2.0","method":"x"}', _update("b", "2")])
        ends.agent.write([b'{"jsonrpc":"2.0","method":"y"}'])
        assert len(await ends.client_has(1)) == 1
        slow.may_pass.set()
        received = await ends.client_has(4)
        assert b'"t":"2"' in received[0]
        assert b'"t":"1"' in received[1]
        assert b'"x"' in received[2]
        assert b'"y"' in received[3]


async def test_any_number_of_messages_passes_after_a_handler() -> None:
    slow = _Slow()
    count = 2_000  # more than calls can nest
    async with joined(slow) as ends, asyncio.timeout(10):
        later = [
            b'{"jsonrpc":"2.0","method":"n","params":{"sessionId":"a","n":%d}}' % number
            for number in range(count)
        ]
        ends.agent.write([_update("a", "1"), *later, b'{"jsonrpc":"2.0","method":"last"}'])
        slow.may_pass.set()
        received = await ends.client_has(count + 2)
    assert b'"t":"1"' in received[0]
    assert received[1:-1] == later
    assert b'"last"' in received[-1]


async def test_errors_of_handlers_are_responses() -> None:
    async with joined(_Slow()) as ends:
        ends.client.write([b'{"jsonrpc":"2.0","id":1,"method":"fails"}'])
        assert b"-32602" in (await ends.client_has(1))[0]


@requirement("R-REQCAN-11")
async def test_cancel_reaches_the_forwarded_request_or_the_handler() -> None:
    slow = _Slow()
    async with joined(slow) as ends:
        cancel = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}'
        ends.client.write([_prompt(1, "a")])
        await ends.agent_has(1)
        ends.client.write([cancel])
        assert b'"requestId":0' in (await ends.agent_has(2))[1]
        ends.agent.write([b'{"jsonrpc":"2.0","id":0,"error":{"code":-32800,"message":"c"}}'])
        await ends.client_has(1)
        slow.after_response.clear()
        ends.client.write([_prompt(1, "a")])
        await ends.agent_has(3)
        ends.agent.write([b'{"jsonrpc":"2.0","id":1,"result":{}}', _update("b", "1")])
        await ends.client_has(2)
        ends.client.write([cancel])
        assert b"-32800" in (await ends.client_has(3))[2]


async def test_messages_that_wait_stop_the_source() -> None:
    slow = _Slow()
    async with joined(slow) as ends:
        written = 0
        while not ends.agent.congested:
            ends.agent.write([_update("a", "x" * 10_000)])
            written += 1
            await asyncio.sleep(0)
            assert written < 1000
        slow.may_pass.set()
        assert len(await ends.client_has(written)) == written
