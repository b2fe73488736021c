"""A proxy's connection to its conductor, which carries the messages of both of its neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from msgspec import UNSET

from accord.errors import InvalidRequest, RequestError
from accord.jsonrpc.message import RequestId
from accord.proxy.dialects import (
    ACP,
    PROXY_INITIALIZE,
    SUCCESSOR,
    THINKWELL,
    Dialect,
    is_proxy_initialize,
    marked_as_proxy,
    unmarked,
    unwrap,
    wrap,
)
from accord.proxy.ends import wire
from accord.proxy.hop import Hop, HopObserver, Hops
from accord.proxy.life import Life, close_all
from accord.proxy.runs import Run
from accord.proxy.stage import Direction, Params, Port, RawRequest, RawResponse, Stage
from accord.proxy.two_sided import TwoSidedHop
from accord.transports.base import Transport

NOT_ALONE = (
    "This program is a proxy, not an agent: it needs a conductor and a successor, "
    "as in `accord chain PROXY AGENT`"
)


class ConductorHop(TwoSidedHop):
    """The connection to the conductor: plain messages are the client's, wrapped the successor's."""

    def __init__(self, transport: Transport, hops: Hops) -> None:
        super().__init__("conductor", transport, hops)
        self.client: _ClientSide = _ClientSide(self)
        self.agent: _AgentSide = _AgentSide(self)
        self.dialect: Dialect = ACP  # until the conductor has named it
        for flow in hops.flows.values():
            flow.source = self.pauses

    def port_of(self, *, wrapped: bool) -> Port:
        return (self.agent if wrapped else self.client).port

    def on_request(self, request_id: RequestId, method: str, params: Params) -> None:
        side: ReceivingSide = self.client
        back = Direction.TO_CLIENT
        try:
            if method in SUCCESSOR:
                side, back = self.agent, Direction.TO_AGENT
                method, params = self.wrapped(params)
            else:
                method, params = self.plain(method, params)
        except RequestError as exc:
            self.fail(request_id, exc)
            return
        self.deliver(side, self.add_request(request_id, method, params, back))

    def add_request(
        self, request_id: RequestId, method: str, params: Params, back: Direction
    ) -> RawRequest:
        request = super().add_request(request_id, method, params, back)
        if self.dialect is not THINKWELL or method != "initialize":
            return request

        def answered(response: RawResponse) -> None:
            if response.result is not None:
                response = RawResponse(result=marked_as_proxy(response.result))
            request.answer(response)

        return request.derive(answered)

    def deliver(self, side: ReceivingSide, request: RawRequest) -> None:
        """Hand a request to the first or the last stage."""
        side.port.request(request)

    def wrapped(self, params: Params) -> tuple[str, Params]:
        """Return a request of the successor; raise `RequestError` to refuse it."""
        return unwrap(params)

    def plain(self, method: str, params: Params) -> tuple[str, Params]:
        """Return a request of the client; learn the dialect of the conductor from `initialize`."""
        if (dialect := PROXY_INITIALIZE.get(method)) is not None:
            self.dialect = dialect
            return "initialize", params
        if method == "initialize":
            if params is UNSET or not is_proxy_initialize(params):
                raise InvalidRequest(NOT_ALONE)
            self.dialect = THINKWELL
            return method, unmarked(params)
        return method, params


class ReceivingSide(Protocol):
    """What passes messages of one neighbour to the stages."""

    port: Port


class _ClientSide:
    """The end of the chain of a proxy's stages towards the client."""

    port: Port

    def __init__(self, hop: Hop) -> None:
        self._hop = hop

    def send_notification_out(self, method: str, params: Params) -> None:
        self._hop.send_notification(method, params, Direction.TO_CLIENT)

    def send_run_out(self, run: Run) -> None:
        self._hop.send_run(run, Direction.TO_CLIENT)

    def send_request_out(self, request: RawRequest) -> None:
        self._hop.send_request(request, request.method, request.params, Direction.TO_CLIENT)


class _AgentSide:
    """The end towards the agent: everything is wrapped."""

    port: Port

    def __init__(self, hop: ConductorHop) -> None:
        self._hop = hop

    def send_notification_out(self, method: str, params: Params) -> None:
        hop = self._hop
        hop.send_wrapped(hop.dialect.notification, method, params, Direction.TO_AGENT)

    def send_run_out(self, run: Run) -> None:
        self._hop.send_run(run, Direction.TO_AGENT, envelope=self._hop.dialect.notification)

    def send_request_out(self, request: RawRequest) -> None:
        hop, params = self._hop, request.params
        if hop.dialect is THINKWELL and request.method == "initialize":
            params = marked_as_proxy(params)
        wrapped = wrap(request.method, params)
        hop.send_request(request, hop.dialect.request, wrapped, Direction.TO_AGENT)


async def serve_stages(
    stages: Sequence[Stage], transport: Transport, observers: Sequence[HopObserver] = ()
) -> None:
    """Be a proxy made of these stages, until the conductor disconnects.

    Raise `TransportError` if the conductor cannot be reached.
    """
    life = Life(observers)
    hop = ConductorHop(transport, life.hops)
    wire(hop.client, stages, hop.agent, life.hops)
    try:
        for stage in stages:
            await stage.start()
        await hop.start()
        await life.wait(hop, tuple)
    except asyncio.CancelledError:
        hop.is_silent = True  # this program ends; its conductor answers, and knows how it ended
        raise
    finally:
        await close_all([*(stage.aclose() for stage in stages), hop.aclose()])
