"""What passes a chain of stages in one process: the bytes received, in order, with ids per hop."""

from __future__ import annotations

import asyncio

from accord.errors import InternalError
from accord.proxy.stage import Params, RawRequest, RawResponse, Stage
from accord.transports.base import HIGH_BYTES
from proxy.ends import joined
from requirement import requirement


@requirement("R-PROXY-04", "R-PROXY-05", "R-PROXY-20")
async def test_params_pass_as_the_bytes_received() -> None:
    for count in (0, 1, 3):
        params = rb'{"b" : 1.0,"a":1e400, "\u0041":[ ],"_meta":{"x":12345678901234567890123}}'
        async with joined(*(Stage() for _ in range(count))) as ends:
            ends.client.write([b'{"jsonrpc":"2.0","method":"x/y","params":' + params + b"}"])
            ends.client.write([b'{"jsonrpc":"2.0","method":"z"}'])
            ends.agent.write(
                [b'{"jsonrpc":"2.0","method":"session/update","params":' + params + b"}"]
            )
            assert await ends.agent_has(2) == [
                b'{"jsonrpc":"2.0","method":"x/y","params":' + params + b"}",
                b'{"jsonrpc":"2.0","method":"z"}',
            ]
            assert params in (await ends.client_has(1))[0], count


@requirement("R-PROXY-08")
async def test_results_and_errors_pass_as_the_bytes_received() -> None:
    async with joined(Stage()) as ends:
        ends.client.write(
            [
                b'{"jsonrpc":"2.0","id":"a","method":"x"}',
                b'{"jsonrpc":"2.0","id":null,"method":"y"}',
                b'{"jsonrpc":"2.0","id":7,"method":"z"}',
            ]
        )
        assert await ends.agent_has(3) == [
            b'{"jsonrpc":"2.0","id":0,"method":"x"}',
            b'{"jsonrpc":"2.0","id":1,"method":"y"}',
            b'{"jsonrpc":"2.0","id":2,"method":"z"}',
        ]
        ends.agent.write(
            [
                b'{"jsonrpc":"2.0","id":2,"error":{"extra": 1.0,"code":-1,"message":"m"}}',
                b'{"jsonrpc":"2.0","id":0,"result":{ "n":1.00}}',
                b'{"jsonrpc":"2.0","id":1,"error":{"code":"strange"}}',
            ]
        )
        assert await ends.client_has(3) == [
            b'{"jsonrpc":"2.0","id":7,"error":{"extra": 1.0,"code":-1,"message":"m"}}',
            b'{"jsonrpc":"2.0","id":"a","result":{ "n":1.00}}',
            b'{"jsonrpc":"2.0","id":null,"error":{"code":"strange"}}',
        ]


@requirement("R-REQCAN-11", "R-PROXY-21")
async def test_cancel_names_the_id_of_the_next_hop() -> None:
    async with joined(Stage(), Stage()) as ends:
        ends.client.write([b'{"jsonrpc":"2.0","id":"mine","method":"x"}'])
        ends.client.write(
            [b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"mine"}}']
        )
        assert (await ends.agent_has(2))[1] == (
            b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}'
        )


async def test_malformed_frames_are_answered_by_the_connection_that_received_them() -> None:
    async with joined(Stage()) as ends:
        ends.client.write([b"{nonsense}", b"[]", b'{"jsonrpc":"2.0","method":"after"}'])
        assert await ends.agent_has(1) == [b'{"jsonrpc":"2.0","method":"after"}']
        errors = await ends.client_has(2)
        assert b"-32700" in errors[0]
        assert b"-32600" in errors[1]


class _Answers(Stage):
    """Changes requests of the client and their responses, and answers one itself."""

    def request_from_client(self, request: RawRequest) -> None:
        if request.method == "mine":
            request.answer(RawResponse.of_result({"by": "proxy"}))
            return
        if request.method == "fails":
            request.fail(InternalError("no", data=1))
            return

        def answered(response: RawResponse) -> None:
            assert response.result is not None
            request.answer(RawResponse.of_result({"was": bytes(response.result).decode()}))

        self.agent.request(request.derive(answered, method="other"))

    def notification_from_agent(self, method: str, params: Params) -> None:
        if method != "drop":
            super().notification_from_agent(method, params)


async def test_stage_answers_changes_and_drops() -> None:
    async with joined(Stage(), _Answers()) as ends:
        ends.client.write(
            [
                b'{"jsonrpc":"2.0","id":1,"method":"mine"}',
                b'{"jsonrpc":"2.0","id":2,"method":"fails"}',
                b'{"jsonrpc":"2.0","id":3,"method":"x"}',
                b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":3}}',
            ]
        )
        sent = await ends.agent_has(2)
        assert sent[0] == b'{"jsonrpc":"2.0","id":0,"method":"other"}'
        assert b'"requestId":0' in sent[1]
        ends.agent.write([b'{"jsonrpc":"2.0","method":"drop"}', b'{"jsonrpc":"2.0","method":"k"}'])
        ends.agent.write([b'{"jsonrpc":"2.0","id":0,"result":1.0}'])
        assert (await ends.client_has(4))[2:] == [
            b'{"jsonrpc":"2.0","method":"k"}',
            b'{"jsonrpc":"2.0","id":3,"result":{"was":"1.0"}}',
        ]
        assert b'"data":1' in (await ends.client_has(4))[1]


@requirement("R-PROXY-19")
async def test_client_that_does_not_read_stops_the_agent() -> None:
    async with joined(Stage()) as ends:
        ends.client.pause_reading()
        frame = b'{"jsonrpc":"2.0","method":"u","params":"' + b"x" * 10_000 + b'"}'
        written = 0
        while not ends.agent.congested:
            ends.agent.write([frame])
            written += 1
            await asyncio.sleep(0)
            assert written * len(frame) < 10 * HIGH_BYTES
        # The other direction is not affected (R-PROXY-19).
        ends.client.write([b'{"jsonrpc":"2.0","method":"session/cancel"}'])
        await ends.agent_has(1)
        ends.client.resume_reading()
        assert len(await ends.client_has(written)) == written


@requirement("R-PROXY-19")
async def test_message_larger_than_the_buffer_does_not_end_the_flow() -> None:
    # The connection is congested while nothing else waits to be written.
    large = b'{"jsonrpc":"2.0","method":"u","params":["%b"]}' % (b"x" * 2 * HIGH_BYTES)
    async with joined(Stage()) as ends:
        for count in (2, 4):
            ends.agent.write([large])
            await ends.client_has(count - 1)
            ends.agent.write([b'{"jsonrpc":"2.0","method":"v"}'])
            assert len(await ends.client_has(count)) == count


async def test_pending_requests_fail_when_the_agent_disconnects() -> None:
    async with joined(Stage()) as ends:
        ends.client.write([b'{"jsonrpc":"2.0","id":1,"method":"x"}'])
        await ends.agent_has(1)
        await ends.agent.aclose()
        answer = (await ends.client_has(1))[0]
        assert b'"data":{"component":"agent"}' in answer
        await ends.at_client.until(lambda: ends.at_client.ended)
