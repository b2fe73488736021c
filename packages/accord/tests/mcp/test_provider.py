"""The provider's side of `mcp/message`: its checks, its codes and its ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from accord.errors import (
    InvalidParams,
    McpBackendFailed,
    McpLimitExceeded,
    McpServerUnavailable,
    RequestCancelled,
)
from accord.mcp.consumer import CLIENT_CAPABILITIES, MCP_VERSION, PROTOCOL_VERSION
from accord.mcp.provider import (
    McpCall,
    McpProvider,
    Registration,
)
from accord.wire.shared import (
    McpError,
    MessageMcpError,
    MessageMcpNotification,
    MessageMcpRequest,
    MessageMcpResponse,
    MessageMcpResult,
)
from requirement import requirement

META = {PROTOCOL_VERSION: MCP_VERSION, CLIENT_CAPABILITIES: {}}


class Backend:
    """Serves calls by a function, and records what happens to them."""

    def __init__(self, serve: Callable[[McpCall], Any] | None = None) -> None:
        self._serve = serve
        self.calls: list[McpCall] = []
        self.started = asyncio.Event()
        self.cancelled: list[str] = []
        self.is_closed = False

    async def serve(self, call: McpCall) -> MessageMcpResponse:
        self.calls.append(call)
        self.started.set()
        try:
            if self._serve is None:
                await asyncio.Event().wait()
            else:
                result = self._serve(call)
                return await result if asyncio.iscoroutine(result) else result
        except asyncio.CancelledError:
            self.cancelled.append(call.request_id)
            raise
        raise AssertionError

    async def aclose(self) -> None:
        self.is_closed = True


def message(registration: Registration, request_id: str = "r", **fields: Any) -> MessageMcpRequest:
    fields = {"method": "tools/list", "params": {"_meta": META}, **fields}
    server_id = registration.declaration.server_id
    return MessageMcpRequest(server_id=server_id, request_id=request_id, **fields)


async def ignore(notification: MessageMcpNotification) -> None:
    raise AssertionError(notification)


@requirement("R-MOA-02")
def test_each_server_has_an_id_of_its_own_that_is_not_used_again() -> None:
    provider = McpProvider()
    first, second = (provider.register("tools", Backend()) for _ in range(2))
    ids = {first.declaration.server_id, second.declaration.server_id}
    assert len(ids) == 2
    provider.remove(first.declaration.server_id)
    assert provider.register("tools", Backend()).declaration.server_id not in ids


@requirement("R-MOA-06", "R-MOA-08")
@pytest.mark.parametrize("result", [None, {"tools": []}, [1], "text"])
async def test_a_registered_server_answers_with_one_outcome(result: Any) -> None:
    provider = McpProvider()
    registration = provider.register("tools", Backend(lambda _: MessageMcpResult(result=result)))
    assert registration.declaration.server_id in provider
    answer = await provider.request(message(registration), ignore)
    assert answer == MessageMcpResult(result=result)


@requirement("R-MOA-06", "R-MOA-12")
async def test_an_error_of_the_server_is_an_outcome_even_with_a_code_of_the_binding() -> None:
    provider = McpProvider()
    outcome = MessageMcpError(error=McpError(code=-33001, message="inner"))
    registration = provider.register("tools", Backend(lambda _: outcome))
    assert await provider.request(message(registration), ignore) == outcome


@requirement("R-MOA-07", "R-MOA-12")
async def test_request_for_an_unknown_server_is_refused() -> None:
    request = MessageMcpRequest(server_id="s", request_id="r", method="tools/list")
    with pytest.raises(McpServerUnavailable) as caught:
        await McpProvider().request(request, ignore)
    assert caught.value.code == -33001
    assert caught.value.data == {"serverId": "s"}


@requirement("R-MOA-12")
async def test_a_server_that_fails_is_an_error_of_the_binding_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: McpCall) -> Any:
        raise ValueError("secret")

    provider = McpProvider()
    registration = provider.register("tools", Backend(fail))
    with pytest.raises(McpBackendFailed) as caught:
        await provider.request(message(registration), ignore)
    assert caught.value.code == -33002
    assert "secret" not in f"{caught.value} {caught.value.data}"
    assert "secret" in caplog.text


@requirement("R-MOA-10")
async def test_the_id_of_an_active_request_is_refused_and_free_afterwards() -> None:
    provider = McpProvider()
    go = asyncio.Event()

    async def wait(_: McpCall) -> MessageMcpResponse:
        await go.wait()
        return MessageMcpResult(result=1)

    backend = Backend(wait)
    registration = provider.register("tools", backend)
    other = provider.register("other", Backend(lambda _: MessageMcpResult(result=2)))
    first = asyncio.create_task(provider.request(message(registration), ignore))
    await backend.started.wait()
    with pytest.raises(InvalidParams):
        await provider.request(message(registration), ignore)
    assert await provider.request(message(other), ignore) == MessageMcpResult(result=2)
    go.set()
    assert await first == MessageMcpResult(result=1)
    assert await provider.request(message(registration), ignore) == MessageMcpResult(result=1)


@requirement("R-MOA-14")
async def test_at_most_64_requests_of_a_server_are_active() -> None:
    provider = McpProvider()
    backend = Backend()
    registration = provider.register("tools", backend)
    active = [
        asyncio.create_task(provider.request(message(registration, str(number)), ignore))
        for number in range(64)
    ]
    await backend.started.wait()
    with pytest.raises(McpLimitExceeded) as caught:
        await provider.request(message(registration, "one more"), ignore)
    assert caught.value.code == -33000
    await registration.aclose()
    assert all(
        isinstance(result, RequestCancelled)
        for result in await asyncio.gather(*active, return_exceptions=True)
    )


@requirement("R-MOA-11")
async def test_cancelling_a_request_stops_this_one_only() -> None:
    provider = McpProvider()
    backend = Backend()
    registration = provider.register("tools", backend)
    first, second = (
        asyncio.create_task(provider.request(message(registration, name), ignore))
        for name in ("first", "second")
    )
    await backend.started.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert backend.cancelled == ["first"]
    await registration.aclose()
    with pytest.raises(RequestCancelled):  # -32800
        await second
    assert backend.cancelled == ["first", "second"]
    assert backend.is_closed


@requirement("R-MOA-11")
async def test_a_result_that_is_faster_than_its_cancellation_is_kept() -> None:
    provider = McpProvider()

    async def finish(_: McpCall) -> MessageMcpResponse:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return MessageMcpResult(result="done")
        raise AssertionError

    backend = Backend(finish)
    registration = provider.register("tools", backend)
    request = asyncio.create_task(provider.request(message(registration), ignore))
    await backend.started.wait()
    request.cancel()
    assert await request == MessageMcpResult(result="done")


@requirement("R-MOA-07", "R-MOA-11")
async def test_a_removed_server_is_unavailable() -> None:
    provider = McpProvider()
    registration = provider.register("tools", Backend())
    await registration.aclose()
    with pytest.raises(McpServerUnavailable):
        await provider.request(message(registration), ignore)


@requirement("R-MOA-09", "R-MOA-15")
async def test_notifications_belong_to_an_active_request_and_end_with_it() -> None:
    provider = McpProvider()
    sent: list[MessageMcpNotification] = []
    calls: list[McpCall] = []

    async def keep(notification: MessageMcpNotification) -> None:
        sent.append(notification)

    async def work(call: McpCall) -> MessageMcpResponse:
        calls.append(call)
        await call.notify("notifications/progress", {"progress": 1})
        return MessageMcpResult(result=None)

    registration = provider.register("tools", Backend(work))
    await provider.request(message(registration), keep)
    await calls[0].notify("notifications/progress", {"progress": 2})
    assert sent == [
        MessageMcpNotification(
            server_id=registration.declaration.server_id,
            request_id="r",
            method="notifications/progress",
            params={"progress": 1},
        )
    ]


@requirement("R-MOA-13")
@pytest.mark.parametrize(
    ("params", "code"),
    [
        (None, -32602),
        ({}, -32602),
        ({"_meta": None}, -32602),
        ({"_meta": []}, -32602),
        ({"_meta": {PROTOCOL_VERSION: 1, CLIENT_CAPABILITIES: {}}}, -32602),
        ({"_meta": {PROTOCOL_VERSION: MCP_VERSION}}, -32602),
        ({"_meta": {PROTOCOL_VERSION: MCP_VERSION, CLIENT_CAPABILITIES: []}}, -32602),
        ({"_meta": {PROTOCOL_VERSION: "2025-11-25"}}, -32022),
    ],
)
async def test_a_request_without_version_and_capabilities_gets_an_inner_error(
    params: Any, code: int
) -> None:
    provider = McpProvider()
    backend = Backend()
    registration = provider.register("tools", backend)
    answer = await provider.request(message(registration, params=params), ignore)
    assert isinstance(answer, MessageMcpError)
    assert answer.error.code == code
    if code == -32022:
        assert answer.error.data == {"supported": [MCP_VERSION], "requested": "2025-11-25"}
    assert not backend.calls


@requirement("R-MOA-07", "R-MOA-10", "R-MOA-13", "R-MOA-14")
async def test_the_checks_have_the_order_of_the_reference_provider() -> None:
    provider = McpProvider()
    backend = Backend()
    registration = provider.register("tools", backend, max_active_requests=1)
    unknown = MessageMcpRequest(server_id="other", request_id="r", method="m")
    active = asyncio.create_task(provider.request(message(registration), ignore))
    await backend.started.wait()
    with pytest.raises(McpServerUnavailable):  # before its id, the limit and its params
        await provider.request(unknown, ignore)
    with pytest.raises(InvalidParams):  # before the limit and its params
        await provider.request(message(registration, params=None), ignore)
    with pytest.raises(McpLimitExceeded):  # before its params
        await provider.request(message(registration, "s", params=None), ignore)
    await provider.aclose()
    with pytest.raises(RequestCancelled):
        await active
