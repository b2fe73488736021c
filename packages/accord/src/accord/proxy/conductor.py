"""The conductor: one agent for the client, made of proxies and an agent.

It starts when the first `initialize` arrives. After `initialize`, its last component is the agent.
After `proxy/initialize`, all its components are proxies, and it is a proxy of a larger chain
itself: what the last one sends to its successor goes to the conductor's own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import pairwise

from msgspec import UNSET

from accord.errors import AccordError, InternalError, InvalidRequest, RequestError, StartError
from accord.proxy.component import ProxyComponent
from accord.proxy.dialects import PROXY_INITIALIZE, is_proxy_initialize
from accord.proxy.ends import AgentEnd, EndOfChain, wire
from accord.proxy.hop import Hop, HopObserver, Hops
from accord.proxy.life import Life, close_all
from accord.proxy.multiplexed import NOT_ALONE, ConductorHop, ReceivingSide
from accord.proxy.ordered import session_id_of
from accord.proxy.parts import Component, with_unique_names
from accord.proxy.runs import Run
from accord.proxy.stage import Params, Port, RawRequest, RawResponse, Stage, raw_json
from accord.rules.negotiation import requested_version, select, v2_params_of
from accord.text import lenient_json
from accord.text.excerpt import excerpt
from accord.transports.base import Transport, opened
from accord.transports.process import ProcessTransport

log: logging.Logger = logging.getLogger("accord.proxy")

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

    def deliver(self, side: ReceivingSide, request: RawRequest) -> None:
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
            wire(self._front.client, stages, agent, hops)
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
        closing = self._close_components()
        self._hops, self._stages = [], []
        await close_all(closing)
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
