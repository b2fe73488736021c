"""The conductor: one agent for the client, made of proxies and an agent.

`conduct` starts when the first `initialize` arrives. After `initialize`, its last component is the
agent. After `proxy/initialize`, all its components are proxies, and it is a proxy of a larger chain
itself: what the last one sends to its successor goes to the conductor's own.

Above it are the kinds of connections: `ClientEnd` and `AgentEnd` exchange plain messages, and both
ends of the connection between a proxy and its conductor wrap those of the successor. `join` and
`serve_stages` run stages of this process, between two programs or as a proxy.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import pairwise

from msgspec import UNSET, Struct, structs

from accord.errors import (
    AccordError,
    ConnectionLost,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    RequestError,
    StartError,
)
from accord.jsonrpc.message import RequestId
from accord.jsonrpc.peer import CANCEL_REQUEST
from accord.proxy.hop import (
    ACP,
    ANSWER_S,
    PROXY_INITIALIZE,
    RUST,
    SUCCESSOR,
    THINKWELL,
    Dialect,
    Hop,
    HopObserver,
    Hops,
    is_proxy_initialize,
    marked_as_proxy,
    unmarked,
    unwrap,
    wrap,
)
from accord.proxy.stage import (
    Direction,
    EndOfChain,
    Params,
    Port,
    RawRequest,
    RawResponse,
    Run,
    Stage,
    raw_json,
    session_id_of,
    wire,
)
from accord.rules.negotiation import requested_version, select, v2_params_of
from accord.text import lenient_json
from accord.text.excerpt import excerpt
from accord.transports.base import Transport, TransportFactory, opened
from accord.transports.process import ProcessTransport

# The two ends of a chain.


log: logging.Logger = logging.getLogger("accord.proxy")


class _PlainEnd(Hop):
    """The connection to the client or to the agent, which exchanges plain messages."""

    inwards: Direction
    outwards: Direction
    port: Port

    def __init__(self, name: str, transport: Transport, hops: Hops) -> None:
        super().__init__(name, transport, hops)
        hops.flows[self.inwards].source = self.pauses

    def on_notification(self, method: str, params: Params) -> None:
        self.port.notify(method, params)

    def on_run(self, run: Run, *, wrapped: bool) -> None:
        self.port.notify_run(run)

    def on_request(self, request_id: RequestId, method: str, params: Params) -> None:
        self.port.request(self.add_request(request_id, method, params, self.outwards))

    def send_notification_out(self, method: str, params: Params) -> None:
        self.send_notification(method, params, self.outwards)

    def send_run_out(self, run: Run) -> None:
        self.send_run(run, self.outwards)

    def send_request_out(self, request: RawRequest) -> None:
        self.send_request(request, request.method, request.params, self.outwards)


class ClientEnd(_PlainEnd):
    """The connection to the client."""

    inwards = Direction.TO_AGENT
    outwards = Direction.TO_CLIENT


class AgentEnd(_PlainEnd):
    """The connection to the agent."""

    inwards = Direction.TO_CLIENT
    outwards = Direction.TO_AGENT


# The life of a chain: it begins with its connections, and ends when one of them ends.


EXIT_S = 5.0  # for a component to report how it ended


class ComponentLost(ConnectionLost):
    """A component of a chain has ended; `component` is its name."""

    def __init__(self, component: str, reason: Exception | None) -> None:
        text = "it disconnected" if reason is None else str(reason)
        super().__init__(
            f"component {component!r} has ended: {text}",
            exit_status=getattr(reason, "exit_status", None),
            stderr=getattr(reason, "stderr", None),
        )
        self.component = component


class Life:
    """Owns the connections of a chain until the first of them ends."""

    def __init__(self, observers: Sequence[HopObserver] = ()) -> None:
        self.hops: Hops = Hops(self._hop_ended, observers)
        self._ended: asyncio.Future[tuple[Hop | None, Exception | None]] = (
            asyncio.get_running_loop().create_future()
        )
        self._stops = False

    def end(self, error: Exception) -> None:
        """End with this error, if no connection has ended."""
        if not self._ended.done():
            self._ended.set_result((None, error))

    def stop(self, reason: str) -> None:
        """End because a stage does not go on with the agent, whose messages do not pass any more.

        What is on its way to the client has some time to arrive.
        """
        self._stops = True
        self.end(ConnectionLost(reason))

    def _hop_ended(self, hop: Hop, error: Exception | None) -> None:
        hop.has_ended = True
        if not self._ended.done():
            self._ended.set_result((hop, error))

    async def wait(self, client: Hop, members: Callable[[], Sequence[Hop]]) -> Exception | None:
        """Wait for the end; return None if the client has ended the chain.

        If another connection ends, every pending request fails with an error that names it, before
        this returns what happened. `members` returns the connections other than the client's.
        Return the error of `end` or `stop`.
        """
        hop, error = await self._ended
        if hop is None:
            if self._stops:
                await self._stop_agent(client, members(), InternalError(str(error)))
            return error
        if hop is client:
            client.refuse_calls(lambda: InternalError("the client has disconnected"))
            await client.finish()
            if error is not None:
                log.debug("= the client is gone: %s", error)
            return None
        lost = ComponentLost(hop.name, await _exit_error(hop) or error)
        self._fail_all((client, *members()), error_of(lost))
        return lost

    async def _stop_agent(self, client: Hop, members: Sequence[Hop], error: RequestError) -> None:
        for hop in members:
            if isinstance(hop, AgentEnd):
                hop.pauses.add(self)
                hop.fail_calls(lambda: error)
        self.hops.write()
        await asyncio.sleep(ANSWER_S)  # other programs of the chain pass on what has happened
        self._fail_all((client, *members), error)

    def _fail_all(self, hops: Sequence[Hop], error: RequestError) -> None:
        for one in hops:
            one.fail_calls(lambda: error)
        for one in hops:
            one.fail_received(lambda: error)
        self.hops.write()


def error_of(lost: ComponentLost) -> RequestError:
    """Return the error that requests get when a component has ended (R-PROXY-17, R-PROXY-22)."""
    return InternalError(str(lost), data={"component": excerpt(lost.component)})


async def _exit_error(hop: Hop) -> Exception | None:
    try:
        async with asyncio.timeout(EXIT_S):
            return await hop.transport.exit_error()
    except TimeoutError:
        return None


async def close_all(closing: Sequence[Awaitable[None]]) -> None:
    """Close everything at the same time; errors are logged."""
    for result in await asyncio.gather(*closing, return_exceptions=True):
        if isinstance(result, Exception):
            log.error("! could not close a part of a chain: %s", result, exc_info=result)


async def join(
    client: Transport,
    stages: Sequence[Stage],
    agent: Transport,
    observers: Sequence[HopObserver] = (),
) -> Exception | None:
    """Connect a client and an agent by stages in this process, until one of them disconnects.

    Return None if the client has, and how the agent ended otherwise. Raise `TransportError` if one
    of them cannot be reached. Both transports are closed.
    """
    life = Life(observers)
    ends = ClientEnd("client", client, life.hops), AgentEnd("agent", agent, life.hops)
    wire(ends[0], stages, ends[1], life.hops.flows, life.stop)
    ends[0].neighbours, ends[1].neighbours = [ends[1].pauses], [ends[0].pauses]
    try:
        for stage in stages:
            await stage.start()
        await ends[1].start()
        await ends[0].start()
        return await life.wait(ends[0], lambda: ends[1:])
    finally:
        await close_all([end.aclose() for end in ends] + [stage.aclose() for stage in stages])


# A connection that carries both neighbours of a proxy: one's messages are wrapped.


class TwoSidedHop(Hop):
    """The connection between a proxy and its conductor, at either end.

    Plain messages are exchanged with the client's side, wrapped ones with the agent's.
    """

    unwraps = True

    def port_of(self, *, wrapped: bool) -> Port:
        """Return where messages that arrive plain, or wrapped, are passed on. To override."""
        raise NotImplementedError

    def on_notification(self, method: str, params: Params) -> None:
        if method not in SUCCESSOR:
            self.port_of(wrapped=False).notify(method, params)
            return
        try:
            inner, params = unwrap(params)
        except InvalidParams as exc:
            self.warn("a wrapped notification was dropped", exc)
            return
        if inner == CANCEL_REQUEST:
            self.cancel_wrapped(params)
        else:
            self.port_of(wrapped=True).notify(inner, params)

    def on_run(self, run: Run, *, wrapped: bool) -> None:
        self.port_of(wrapped=wrapped).notify_run(run)


# A component of a chain that is a program: what the conductor knows of one proxy.

# Of programs that do not know a method; many refuse everything but `initialize` at first.
_UNKNOWN = (MethodNotFound.default_code, InvalidRequest.default_code)


_CLIENT = "client"  # the name of the connection to the client


class Component(Struct, frozen=True):
    """One component of a chain: a stage in this process, or a transport to it.

    `name` is for error messages and traces.
    """

    name: str
    make_stage: Callable[[], Stage] | None = None
    open: TransportFactory | None = None
    dialect: Dialect | None = None  # of a transport; None: found in the handshake
    is_http: bool = False  # then it can only be the agent


def with_unique_names(components: Sequence[Component]) -> list[Component]:
    """Return the components; those with the same name are numbered."""
    counts = Counter(component.name for component in components)
    seen: Counter[str] = Counter()
    found: list[Component] = []
    for component in components:
        name = component.name
        if counts[name] > 1 or name == _CLIENT:
            seen[name] += 1
            name = f"{name} ({seen[name]})"
        found.append(structs.replace(component, name=name))
    return found


class ProxyComponent(TwoSidedHop, Stage):
    """The connection to a proxy: plain on the client's side, wrapped on the agent's side.

    Without a `dialect`, it is found in the handshake: a proxy that does not know
    `proxy/initialize` is asked again in the names of the Rust SDK (R-PROXY-25).
    """

    def __init__(
        self, name: str, transport: Transport, hops: Hops, dialect: Dialect | None = None
    ) -> None:
        super().__init__(name, transport, hops)
        self.dialect: Dialect = dialect or ACP
        self._is_settled = dialect is not None

    async def start(self) -> None:
        """Start reading; raise `TransportError` if the component cannot be reached."""
        await Hop.start(self)

    async def aclose(self) -> None:
        """Write what is left, and close the transport."""
        await Hop.aclose(self)

    # What neighbours send to the component.

    def notification_from_client(self, method: str, params: Params) -> None:
        self.send_notification(method, params, Direction.TO_AGENT)

    def run_from_client(self, run: Run) -> None:
        self.send_run(run, Direction.TO_AGENT)

    def request_from_client(self, request: RawRequest) -> None:
        if request.method == "initialize":
            self._initialize(request)
        else:
            self.send_request(request, request.method, request.params, Direction.TO_AGENT)

    def notification_from_agent(self, method: str, params: Params) -> None:
        self.send_wrapped(self.dialect.notification, method, params, Direction.TO_CLIENT)

    def run_from_agent(self, run: Run) -> None:
        self.send_run(run, Direction.TO_CLIENT, envelope=self.dialect.notification)

    def request_from_agent(self, request: RawRequest) -> None:
        wrapped = wrap(request.method, request.params)
        self.send_request(request, self.dialect.request, wrapped, Direction.TO_CLIENT)

    # What the component sends.

    def port_of(self, *, wrapped: bool) -> Port:
        return self.agent if wrapped else self.client

    def on_request(self, request_id: RequestId, method: str, params: Params) -> None:
        port, back = self.client, Direction.TO_AGENT
        try:
            if (dialect := SUCCESSOR.get(method)) is not None:
                method, params = unwrap(params)
                port, back = self.agent, Direction.TO_CLIENT
                if method in PROXY_INITIALIZE and not self._is_settled:
                    # It passes on what it does not know: it speaks another dialect.
                    raise MethodNotFound
                self._settle(dialect)
                if method == "initialize" and params is not UNSET:
                    params = unmarked(params)
            if method in PROXY_INITIALIZE:
                raise InvalidRequest(f"Only the conductor sends {method}")
        except RequestError as exc:
            self.fail(request_id, exc)
            return
        port.request(self.add_request(request_id, method, params, back))

    # The handshake.

    def _settle(self, dialect: Dialect) -> None:
        """Keep the dialect from now on: that of the first message to its successor."""
        if not self._is_settled:
            self._is_settled = True
            self.dialect = dialect

    def _initialize(self, request: RawRequest) -> None:
        self._send_initialize(request, self.dialect)

    def _send_initialize(self, request: RawRequest, dialect: Dialect) -> None:
        params = marked_as_proxy(request.params) if dialect is THINKWELL else request.params

        def answered(response: RawResponse) -> None:
            if response.error is not None and not self._is_settled:
                error = response.request_error()
                if error is not None and error.code in _UNKNOWN:
                    self._not_found(request, dialect, error)
                    return
            self._settle(dialect)
            request.answer(response if dialect is not THINKWELL else self._accepted(response))

        derived = request.derive(answered)
        self.send_request(derived, dialect.initialize, params, Direction.TO_AGENT)

    def _accepted(self, response: RawResponse) -> RawResponse:
        """Return the answer without its mark, or an error if a component is not a proxy."""
        if response.result is None:
            return response
        if not is_proxy_initialize(response.result):
            error = self._not_a_proxy("its answer to initialize lacks _meta.proxy")
            return RawResponse.of_error(error)
        return RawResponse(result=unmarked(response.result))

    def _not_found(self, request: RawRequest, dialect: Dialect, error: RequestError) -> None:
        if dialect is ACP:
            self.dialect = RUST
            self._send_initialize(request, RUST)
            return
        why = f"it knows neither {ACP.initialize} nor {RUST.initialize}: {error.text}"
        request.fail(self._not_a_proxy(why))

    def _not_a_proxy(self, why: str) -> InvalidRequest:
        return InvalidRequest(
            f"component {self.name!r} is not a proxy (only the last component is the agent): {why}",
            data={"component": self.name},
        )


# A proxy's connection to its conductor, which carries the messages of both of its neighbours.

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
        side: EndOfChain = self.client
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

    def deliver(self, side: EndOfChain, request: RawRequest) -> None:
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
    wire(hop.client, stages, hop.agent, life.hops.flows, life.stop)
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


SLOW_S = 10.0  # for `initialize`; then the log says who has not responded
_LAST_ANSWER_S = 1.5  # after `ANSWER_S`: components may still be starting


async def conduct(
    components: Sequence[Component],
    transport: Transport,
    observers: Sequence[HopObserver] = (),
) -> Exception | None:
    """Serve one client, or one conductor, with a chain until one of them disconnects.

    Return None if the client has, `ComponentLost` if a component has ended, and `StartError` if one
    could not be started. Raise `TransportError` if the client cannot be reached. All components
    are stopped.
    """
    return await _Conductor(components, observers).run(transport)


class _Front(ConductorHop):
    """The connection to the client, or to the conductor of a larger chain."""

    def __init__(self, transport: Transport, hops: Hops, wake: Callable[[bool], None]) -> None:
        super().__init__(transport, hops)
        self.name = "client"
        self.failure: RawResponse | None = None  # of `initialize`
        self._is_proxy: bool | None = None  # None: nothing has arrived that tells
        self._wake = wake
        self._held: list[Callable[[], None]] | None = []  # until the components have started

    def release(self) -> None:
        """Handle what arrived while the components started."""
        held, self._held = self._held, None
        for handle in held or ():
            handle()
        self.pauses.remove(self)

    async def finish(self) -> None:
        """Wait for responses; cancel the prompts that take longer, as an agent alone would."""
        await super().finish()
        if self._is_proxy:
            return  # its conductor does not wait
        if self._held is None:
            prompts = [one for one in self._received.values() if one.method == "session/prompt"]
            for session_id in {session_id_of(prompt.params) for prompt in prompts} - {None}:
                self.client.port.notify("session/cancel", raw_json({"sessionId": session_id}))
        await self.wait_answered(_LAST_ANSWER_S)

    def on_notification(self, method: str, params: Params) -> None:
        if self._is_proxy is None:
            log.debug("! a notification before `initialize` was dropped: %r", method)
        elif self._held is not None:
            self._held.append(lambda: self._notification(method, params))
        else:
            self._notification(method, params)

    def on_run(self, run: Run, *, wrapped: bool) -> None:
        if self._is_proxy is None or self._held is not None or wrapped > self._is_proxy:
            for frame in run.frames:
                self._handle([frame])
        elif self._is_proxy:
            super().on_run(run, wrapped=wrapped)
        else:
            self.client.port.notify_run(run)

    def _notification(self, method: str, params: Params) -> None:
        if self._is_proxy:
            super().on_notification(method, params)
        else:
            self.client.port.notify(method, params)

    def deliver(self, side: EndOfChain, request: RawRequest) -> None:
        if self._held is not None:
            self._held.append(lambda: side.port.request(request))
        else:
            side.port.request(request)

    def plain(self, method: str, params: Params) -> tuple[str, Params]:
        """Wake the chain at the first `initialize`; raise `RequestError` for an unexpected one."""
        is_proxy = method in PROXY_INITIALIZE or (
            method == "initialize"
            and self._is_proxy is not False
            and params is not UNSET
            and is_proxy_initialize(params)
        )
        if not is_proxy and method != "initialize":
            if self._is_proxy is None:
                raise InvalidRequest(f"The first request is `initialize`, got {excerpt(method)!r}")
            return method, params
        if self._is_proxy is None:
            self._is_proxy = is_proxy
            self.pauses.add(self)
            self._wake(is_proxy)
        elif self._is_proxy != is_proxy:
            role = "a proxy" if self._is_proxy else "an agent"
            raise InvalidRequest(f"This chain is {role} already: unexpected {method}")
        return super().plain(method, params) if is_proxy else (method, params)

    def wrapped(self, params: Params) -> tuple[str, Params]:
        if not self._is_proxy:
            raise InvalidRequest("This is an agent, not a proxy: it has no successor")
        return super().wrapped(params)


class _LastEnd(AgentEnd):
    """The connection to the last component, which must be the agent."""

    def send_request_out(self, request: RawRequest) -> None:
        if request.method != "initialize":
            super().send_request_out(request)
            return

        def answered(response: RawResponse) -> None:
            error = response.request_error()
            if error is not None and error.message == NOT_ALONE:
                response = RawResponse.of_error(_not_an_agent(self.name))
            request.answer(response)

        super().send_request_out(request.derive(answered))


class _Handshake(Stage):
    """The first stage: settles the version of the chain, and remembers a failed `initialize`."""

    name = "conductor"

    def __init__(self, settled: Callable[[int], None], slow: Callable[[], None]) -> None:
        self._failures: dict[int, RawResponse] = {}  # by version
        self._settled = settled  # called with the version of the chain
        self._slow = slow  # called after `SLOW_S` without a response

    def request_from_client(self, request: RawRequest) -> None:
        if request.method != "initialize":
            self.agent.request(request)
            return
        try:
            version, params = _with_version(request.params)
        except RequestError as exc:
            request.fail(exc)
            return
        if (failure := self._failures.get(version)) is not None:
            request.answer(failure)  # R-PROXY-23; clients may try an older version
            return

        timer = asyncio.get_running_loop().call_later(SLOW_S, self._slow)

        def answered(response: RawResponse) -> None:
            timer.cancel()
            if response.error is not None:
                self._failures[version] = response
            elif (chosen := _version_of(response)) is not None:
                self._settled(chosen)
            request.answer(response)

        self.agent.request(request.derive(answered, params=params))


def _with_version(params: Params) -> tuple[int, Params]:
    """Return the version of the chain, and params of `initialize` with it (R-PROXY-09)."""
    try:
        value = None if params is UNSET else lenient_json.loads(bytes(params))
    except lenient_json.NotJson:
        value = None
    requested = requested_version(value)
    chosen = select(requested, (1, 2))
    if chosen == requested or value is None:
        return chosen, params
    if requested > chosen == 2:
        value = v2_params_of(value)
    return chosen, raw_json({**value, "protocolVersion": chosen})


def _version_of(response: RawResponse) -> int | None:
    """Return the version in the result of `initialize`; None if it has none."""
    try:
        value = lenient_json.loads(bytes(response.result or b""))
    except lenient_json.NotJson:
        return None
    found = value.get("protocolVersion") if lenient_json.is_object(value) else None
    version = lenient_json.whole(found)
    return version if type(version) is int else None


class _Conductor:
    def __init__(self, components: Sequence[Component], observers: Sequence[HopObserver]) -> None:
        self._components = with_unique_names(components)
        self._life = Life(observers)
        self._stages: list[Stage] = []
        self._hops: list[Hop] = []  # of programs and remote components, the agent included
        self._starting: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None  # of what was started in vain
        self._front: _Front

    async def run(self, transport: Transport) -> Exception | None:
        self._front = front = _Front(transport, self._life.hops, self._wake)
        try:
            await front.start()
            return await self._life.wait(front, lambda: self._hops)
        finally:
            if self._starting is not None:
                self._starting.cancel()
                await asyncio.wait([self._starting])
            if self._closing is not None:
                await self._closing
            await close_all([front.aclose(), *self._close_components()])

    def _close_components(self) -> list[Awaitable[None]]:
        stages = [stage for stage in self._stages if not isinstance(stage, Hop)]
        return [one.aclose() for one in (*self._hops, *stages)]

    def _settle(self, version: int) -> None:
        if version == 2:
            for hop in (self._front, *self._hops):
                hop.refuse_null_ids()

    def _report_slow(self, last: Hop) -> None:
        """Log which component has not responded to `initialize`: the last one that got it.

        It can be any of the stages of this process between two connections.
        """
        if last is self._front and last.awaits("initialize"):
            return  # the components of a larger chain
        silent: list[Stage | Hop] = []
        for one in reversed([*self._stages, last]):
            if not isinstance(one, Hop):
                silent.insert(0, one)
            elif not one.awaits("initialize"):
                silent = []
            else:
                if not one.has_asked("initialize"):
                    silent = [one]
                break
        if silent and not any(isinstance(one, Hop) and one.has_ended for one in silent):
            names = " or ".join(repr(one.name) for one in silent)
            log.warning("! component %s: no response to initialize for %g s", names, SLOW_S)

    def _wake(self, is_proxy: bool) -> None:
        self._starting = asyncio.create_task(self._start(is_proxy), name="accord chain start")

    async def _start(self, is_proxy: bool) -> None:
        """Start all components together; the handshake begins when they have (R-PROXY-24)."""
        hops = self._life.hops
        failure: StartError | None = None
        try:
            agent = await self._open_all(is_proxy)
            last = agent if isinstance(agent, AgentEnd) else self._front
            slow = partial(self._report_slow, last)
            stages = [_Handshake(self._settle, slow), *self._stages]
            wire(self._front.client, stages, agent, hops.flows, self._life.stop)
            ring = [self._front, *self._hops, *([self._front] if is_proxy else [])]
            for left, right in pairwise(ring):
                left.neighbours.append(right.pauses)
                right.neighbours.append(left.pauses)
            starts = [(stage.name, stage.start()) for stage in self._stages]
            if isinstance(agent, AgentEnd):
                starts.append((agent.name, agent.start()))
            await _start_all(starts)
        except Exception as exc:  # noqa: BLE001  # answered
            failure = await self._fail(exc)
        self._front.release()
        hops.write()
        if failure is not None:
            self._life.end(failure)

    async def _fail(self, exc: Exception) -> StartError:
        """Answer all requests with the reason why the components could not be started; return it.

        What is only for this machine is not in the answers.
        """
        if not isinstance(exc, AccordError):
            log.error("! a chain could not be started", exc_info=exc)
        error = exc if isinstance(exc, RequestError) else InternalError(str(exc))
        answer = RawResponse.of_error(error)
        refuse = Port(_drop, lambda request: request.answer(answer), _ready, _drop_run)
        self._front.client.port = self._front.agent.port = refuse
        self._closing = asyncio.ensure_future(close_all(self._close_components()))
        self._hops, self._stages = [], []
        await asyncio.shield(self._closing)  # also if the client leaves meanwhile
        cause = exc.__cause__
        searched = cause.searched if isinstance(cause, StartError) else None
        return StartError(error.text, searched=searched)

    async def _open_all(self, is_proxy: bool) -> EndOfChain:
        proxies = self._components if is_proxy else self._components[:-1]
        for component in proxies:
            if component.make_stage is not None:
                stage = component.make_stage()
                self._stages.append(stage)
                continue
            if component.is_http:
                # Over HTTP, the answer to the first message precedes all other messages.
                raise _not_started(component.name, "a proxy needs ws:// or wss://")
            transport = await _opened(component)
            hop = ProxyComponent(component.name, transport, self._life.hops, component.dialect)
            self._hops.append(hop)
            self._stages.append(hop)
        if is_proxy:
            return self._front.agent
        last = self._components[-1]
        end = _LastEnd(last.name, await _opened(last), self._life.hops)
        self._hops.append(end)
        return end


async def _opened(component: Component) -> Transport:
    """Return the transport to a component; a program is started."""
    if component.open is None:
        raise _not_an_agent(component.name)
    transport = await opened(component.open)
    if isinstance(transport, ProcessTransport):
        try:
            transport.spawn()
        except Exception as exc:
            await transport.aclose()
            raise _not_started(component.name, exc) from exc
    return transport


async def _start_all(starts: Sequence[tuple[str, Awaitable[None]]]) -> None:
    """Wait for all components; raise the first error when all have started or failed."""
    results = await asyncio.gather(*(start for _, start in starts), return_exceptions=True)
    for (name, _), result in zip(starts, results, strict=True):
        if isinstance(result, BaseException):
            raise _not_started(name, result) from result


def _not_an_agent(name: str) -> RequestError:
    return InternalError(
        f"component {name!r} is a proxy: the last component is the agent", data={"component": name}
    )


def _not_started(name: str, exc: object) -> RequestError:
    why = exc.shared if isinstance(exc, StartError) else exc
    return InternalError(f"component {name!r} cannot be started: {why}", data={"component": name})


def _drop(method: str, _params: Params) -> None:
    log.debug("! the chain could not be started: %r was dropped", method)


def _drop_run(run: Run) -> None:
    _drop(run.method, UNSET)


async def _ready() -> None:
    """Return at once: nothing is sent."""
