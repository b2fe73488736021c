"""The stage of a Python proxy: calls what it overrides, and passes on all else."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Protocol

from msgspec import UNSET, Raw, Struct, field

from accord.connection.tasks import Owning
from accord.errors import DecodeError, InternalError, InvalidParams, RequestError
from accord.proxy.described import DESCRIBE, with_description
from accord.proxy.ordered import (
    NotificationHandler,
    OrderedStage,
    PassingRequest,
    RequestHandler,
)
from accord.proxy.overrides import Edit, Overrides
from accord.proxy.stage import Direction, Params, RawRequest, RawResponse
from accord.wire.codec import decoder

log: logging.Logger = logging.getLogger("accord.proxy")


class StagedProxy(Protocol):
    """A proxy in one chain."""

    name: str

    async def start(self) -> None:
        """Check the proxy before the first message; raise an exception to end the chain."""
        ...

    def edit_initialize(self, params: Raw, version: int) -> Raw:
        """Return the params of `initialize` to pass on; raise `RequestError` to refuse."""
        ...

    def edit_initialized(self, result: Raw, version: int) -> Raw:
        """Return the result of `initialize` to pass on; raise `RequestError` to refuse."""
        ...

    def initialize_handler(self) -> RequestHandler | None:
        """Return what handles `initialize` between these two, None to pass it on."""
        ...

    def describe(self) -> dict[str, list[str]]:
        """Return the names of what the proxy handles and adds, by their kind."""
        ...

    def overrides(self, version: int, stage: ProxyStage, initialized: Raw) -> tuple[Overrides, ...]:
        """Return what the proxy handles in a chain of this version.

        `initialized` is the result of `initialize` that the client gets.
        """
        ...


class _Version(Struct):
    protocol_version: int | None = field(name="protocolVersion", default=None)


_decode_version = decoder(_Version)


class ProxyStage(OrderedStage):
    """A Python proxy in a chain."""

    def __init__(self, proxy: StagedProxy) -> None:
        super().__init__()
        self.name: str = proxy.name
        self._proxy = proxy
        self._overrides = {direction: Overrides(direction) for direction in Direction}
        # Called when `session/cancel` arrives: it does not wait in the lane of a prompt.
        self.on_session_cancel: Callable[[Params], None] | None = None
        # Serves an `mcp/message` of the agent, or returns False.
        self.on_mcp_request: Callable[[RawRequest], bool] | None = None
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        self._handlers: dict[tuple[Direction, str], NotificationHandler] = {}

    async def start(self) -> None:
        await super().start()
        await self._proxy.start()

    async def aclose(self) -> None:
        """Cancel the running handlers, and release what they have opened."""
        await super().aclose()
        for close in self.on_close:
            await close()

    def request_from_client(self, request: RawRequest) -> None:
        if request.method != DESCRIBE:
            super().request_from_client(request)
            return

        def answered(response: RawResponse) -> None:
            request.answer(with_description(response, self.name, self._proxy.describe()))

        self.agent.request(request.derive(answered))

    def request_from_agent(self, request: RawRequest) -> None:
        serve = self.on_mcp_request
        if serve is None or request.method != "mcp/message" or not serve(request):
            super().request_from_agent(request)

    def notification_from_client(self, method: str, params: Params) -> None:
        if method == "session/cancel" and self.on_session_cancel is not None:
            self.on_session_cancel(params)
        super().notification_from_client(method, params)

    def notification_handler(self, to: Direction, method: str) -> NotificationHandler | None:
        found = self._handlers.get((to, method))
        if found is None and (edit := self._overrides[to].notification(method)) is not None:
            found = self._handler(to, edit)
            if not method.startswith("_"):
                self._handlers[to, method] = found
        return found

    def _handler(self, to: Direction, edit: Edit) -> NotificationHandler:
        port = self.port(to)

        def handle(method: str, params: Params) -> Awaitable[None] | None:
            edited = edit(method, params)
            if edited is None:
                return None
            if isawaitable(edited):
                return Owning(later(method, edited), edited)
            port.notify(method, edited)
            return None

        async def later(method: str, pending: Awaitable[Params | None]) -> None:
            edited = await pending
            if edited is not None:
                port.notify(method, edited)

        return handle

    def request_handler(self, to: Direction, method: str) -> RequestHandler | None:
        if method == "initialize" and to is Direction.TO_AGENT:
            return self._initialize
        return self._overrides[to].request(method)

    async def _initialize(self, request: PassingRequest) -> RawResponse:
        """Let the proxy edit both ways; what it handles afterwards depends on the version."""
        proxy = self._proxy
        try:
            params = Raw(b"{}") if request.params is UNSET else request.params
            version = _decode_version(params).protocol_version or 0
            request.params = proxy.edit_initialize(params, version)
            handler = proxy.initialize_handler()
            if handler is None:
                response = await request.forward(params=request.params)
            else:
                handled = handler(request)
                response = await handled if isawaitable(handled) else handled
            if response.result is None:
                return response
            version = _decode_version(response.result).protocol_version or 0
            result = proxy.edit_initialized(response.result, version)
            for overrides in proxy.overrides(version, self, result):
                self._overrides[overrides.to] = overrides
            self._handlers.clear()
        except DecodeError as exc:
            return RawResponse.of_error(InvalidParams(f"Invalid initialize: {exc}"))
        except RequestError as exc:
            return RawResponse.of_error(exc)
        except Exception:
            log.exception("! %s failed in initialize", self.name)
            error = InternalError(f"The proxy failed: {self.name} raised an exception")
            return RawResponse.of_error(error)
        return RawResponse(result=result)
