"""What a scenario for conductors gets: a conductor, with the kit as client and as each component.

`ConductorProcess` starts the conductor; the components in its command are copies of `component.py`,
which connect to the kit. A `ConductorContext` plays the client and the components of one chain, and
`ConductorProbe` makes the contexts and finds out which versions work.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from msgspec import UNSET

from accord.text.lenient_json import is_object
from accord.transports.base import HIGH_BYTES, LOW_BYTES, NullReceiver, Receiver, Transport
from accord.transports.base import Frame as Bytes
from accord.transports.process import process
from accord_conformance.chain.line import (
    Arrival,
    ChainLine,
    Dialect,
    End,
    Sent,
    text_of,
)
from accord_conformance.chain.proxy_context import initialize_params, initialize_result
from accord_conformance.chain.run import HANDSHAKE, ChainContext, describe_silence
from accord_conformance.harness import (
    NoResponse,
    NotExercised,
    RawHop,
    Scenario,
    Tape,
    decoded,
    encoded,
)
from accord_conformance.reports.report import Report
from accord_conformance.traffic.message import Frame, format_value

# Frames over an accepted connection: the kit's end of a component that it plays.


class StreamTransport(asyncio.Protocol, Transport):
    """Lines of JSON; `on_hello` gets the first line, which says who has connected."""

    def __init__(self, on_hello: Callable[[StreamTransport, bytes], None]) -> None:
        self._on_hello = on_hello
        self._greeted = False
        self._receiver: Receiver = NullReceiver()
        self._early: list[bytes] | None = []  # lines before `start`
        self._rest = b""
        self._congested = False
        self._transport: asyncio.Transport | None = None
        self._lost = asyncio.get_running_loop().create_future()

    # Calls of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(HIGH_BYTES, LOW_BYTES)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not self._greeted and lines:
            self._greeted = True
            self._on_hello(self, lines.pop(0))
        if self._early is not None:
            self._early += lines
        elif lines:
            self._receiver.frames_received(lines)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)
        self._receiver.eof_received(None)

    def pause_writing(self) -> None:
        self._congested = True

    def resume_writing(self) -> None:
        self._congested = False
        self._receiver.writable()

    # The transport of a hop.

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        early, self._early = self._early, None
        if early:
            receiver.frames_received(early)
        if self._lost.done():
            receiver.eof_received(None)

    def write(self, frames: Sequence[Bytes]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(part for frame in frames for part in (frame, b"\n")))

    @property
    def congested(self) -> bool:
        return self._congested

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    async def aclose(self) -> None:
        self._receiver = NullReceiver()
        if self._transport is not None and not self._lost.done():
            # What is unsent is dropped: the component may not read any more.
            self._transport.abort()
            with suppress(asyncio.CancelledError):
                await self._lost


# Starts a conductor under test with components that the kit plays.

PROXY = "{proxy}"
AGENT = "{agent}"
# Called with the name of a component, and its transport, when the conductor has started it.
OnComponent = Callable[[str, Transport], None]

_PROGRAM = Path(__file__).with_name("component.py")


class Launch(Protocol):
    """A conductor that can be started once."""

    async def open(self, on_component: OnComponent, noise: Callable[[str], None]) -> Transport:
        """Return the transport of the client, which is not started yet."""
        ...

    async def aclose(self) -> None:
        """Release everything except the transports."""
        ...


def component_names(command: Sequence[str]) -> list[str]:
    """Return the names of the components in a command: proxy-0, proxy-1, …, agent."""
    names: list[str] = []
    for word in command:
        if word == PROXY:
            names.append(f"proxy-{len(names)}")
        elif word == AGENT:
            names.append("agent")
    return names


class ConductorProcess:
    """A conductor as a process: the placeholders of its command become programs of the kit."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._token = secrets.token_urlsafe(16)
        self._server: asyncio.Server | None = None
        self._on_component: OnComponent = lambda _, __: None

    async def open(self, on_component: OnComponent, noise: Callable[[str], None]) -> Transport:
        """Listen for the components; return the transport of the client."""
        self._on_component = on_component
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: StreamTransport(self._greeted), "127.0.0.1", 0
        )
        port = self._server.sockets[0].getsockname()[1]
        names = iter(component_names(self._command))
        words = [
            self._component(port, next(names)) if word in (PROXY, AGENT) else word
            for word in self._command
        ]
        return process(*words, on_stdout_noise=noise)()

    def _component(self, port: int, name: str) -> str:
        words = [sys.executable, "-I", "-S", str(_PROGRAM), str(port), self._token, name]
        return shlex.join(words)

    def _greeted(self, transport: StreamTransport, hello: bytes) -> None:
        token, _, name = hello.decode("utf-8", "replace").partition(" ")
        if secrets.compare_digest(token.encode(), self._token.encode()):
            self._on_component(name.strip(), transport)

    async def aclose(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()


# What scenarios get.

Json: TypeAlias = dict[str, Any]

# What every conductor is judged by, at the end of each chain.
CONDUCTOR_LINE_RULES = (
    "R-PROXY-07",
    "R-PROXY-21",
    "R-PROXY-25",
    "R-GEN-06",
    "R-STDIO-03",
)
_METHOD_NOT_FOUND = b'{"code":-32601,"message":"Method not found"}'
_INITIALIZE = ("initialize", "proxy/initialize", "_proxy/initialize")


class Component:
    """A component that the kit plays: its connection to the conductor.

    A proxy forwards everything while `relays`. An agent answers `initialize`.
    """

    def __init__(self, context: ConductorContext, name: str, hop: RawHop) -> None:
        self.context = context
        self.name = name
        self.is_agent = name == "agent"
        self.line = ChainLine(hop, context.dialect)
        self.relays = True
        self.initialized: Arrival | None = None
        self.line.on_arrival = self._arrived

    @property
    def initialize_method(self) -> str:
        """The method that initializes it."""
        return "initialize" if self.is_agent else self.context.dialect.initialize

    def _arrived(self, arrival: Arrival) -> None:
        if arrival.method in _INITIALIZE and self.initialized is None:
            if arrival.end is self.line.plain:
                self._initialize(arrival)
        elif self.relays and not self.is_agent:
            self._relay(arrival, arrival.method)

    def _initialize(self, arrival: Arrival) -> None:
        if arrival.method != self.initialize_method and not self.is_agent:
            # The conductor may try other dialects.
            arrival.fail(_METHOD_NOT_FOUND)
            return
        self.initialized = arrival
        if self.context.on_initialize(self, arrival):
            return
        if self.is_agent:
            arrival.reply(encoded(initialize_result(self.context.version)))
        else:
            self._relay(arrival, "initialize")

    def relay_initialize(self) -> None:
        """Forward the request that initialized this proxy."""
        assert self.initialized is not None
        self._relay(self.initialized, "initialize")

    def _relay(self, arrival: Arrival, method: str) -> None:
        line = self.line
        target = line.wrapped if arrival.end is line.plain else line.plain
        params = None if arrival.params is UNSET else bytes(arrival.params)
        if not arrival.is_request:
            target.notify(method, params)
            return
        sent = target.request(method, params)

        def answered() -> None:
            response = sent.response
            assert response is not None
            if response.error is UNSET:
                arrival.reply(text_of(response.result))
            else:
                arrival.fail(text_of(response.error))

        sent.on_response = answered
        arrival.on_cancel = sent.cancel


class ConductorContext(ChainContext):
    """A running scenario; `start` starts a conductor and its components."""

    def __init__(
        self,
        scenario: Scenario[ConductorContext],
        version: int,
        dialect: Dialect,
        names: Sequence[str],
        *,
        answer_s: float,
        report: Report,
        launch: Launch,
        on_close: Callable[[str, Tape], None],
    ) -> None:
        super().__init__(scenario, version, report, "conductor", CONDUCTOR_LINE_RULES)
        self.dialect = dialect
        self.names = names
        self.answer_s = answer_s
        self.tape = Tape()
        self.components: dict[str, Component] = {}
        # Handles the first message of a component; returns whether it has.
        self.on_initialize: Callable[[Component, Arrival], bool] = lambda _, __: False
        self._launch = launch
        self._on_close = on_close
        self._client: ChainLine | None = None
        self._opening: list[asyncio.Task[None]] = []

    @property
    def client(self) -> ChainLine:
        """The connection of the client to the conductor."""
        assert self._client is not None
        return self._client

    @property
    def proxy(self) -> Component:
        """The first proxy."""
        return self.components["proxy-0"]

    @property
    def agent(self) -> Component:
        """The agent."""
        return self.components["agent"]

    @property
    def has_exited(self) -> bool:
        """Whether the conductor has disconnected although the scenario did not end it."""
        return self._client is not None and self._client.hop.is_closed and not self.may_exit

    # The chain.

    async def connect(self) -> None:
        """Start the conductor, and send nothing yet; raise `TransportError`."""
        hops: list[RawHop] = []
        transport = await self._launch.open(
            self._on_component, lambda noise: hops[0].noise_received(noise)
        )
        hops.append(RawHop(transport, self.tape, "client", "conductor"))
        self._client = ChainLine(hops[0], self.dialect)
        await hops[0].open()

    def _on_component(self, name: str, transport: Transport) -> None:
        side = "agent" if name == "agent" else "proxy"
        hop = RawHop(transport, self.tape, side, "conductor")
        self.components[name] = Component(self, name, hop)
        self._opening.append(asyncio.ensure_future(hop.open()))
        self.tape.notify()

    def send_initialize(self, **more: Any) -> Sent:
        """Send `initialize` as the client."""
        params = {**initialize_params(self.version), **more}
        return self.client.plain.request("initialize", encoded(params))

    async def start(self) -> Sent:
        """Start the conductor and initialize the chain; raise `NotExercised` if that fails."""
        await self.connect()
        sent = self.send_initialize()
        await sent.wait(self.answer_s)
        if not sent.ok:
            raise NotExercised(f"the conductor answered initialize with {sent.describe()}")
        missing = [name for name in self.names if name not in self.components]
        if missing:
            raise NotExercised(f"the conductor did not start {', '.join(missing)}")
        return sent

    async def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a condition, which only a message can make true; raise `NoResponse`.

        A conductor that exits closes one connection after the other: each may carry a last message.
        """
        lines = [self.client, *(one.line for one in self.components.values())]
        await self.tape.wait_until(
            lambda: holds() or all(line.hop.is_closed for line in lines), self.answer_s
        )
        if not holds():
            ended = ": the conductor disconnected" if self.client.hop.is_closed else ""
            raise NoResponse(f"no {what}{ended}")

    async def holds(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition until the time limit; return whether it is true."""
        try:
            await self.wait_until(condition, "")
        except NoResponse:
            return False
        return True

    async def stop(self, component: Component) -> None:
        """End a component, as if its process had been killed."""
        await component.line.hop.aclose()

    async def aclose(self) -> None:
        """Stop the conductor, and judge what concerns whole connections."""
        if self._client is not None:
            await self._client.hop.aclose()
        for component in self.components.values():
            await component.line.hop.aclose()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await self._launch.aclose()
        if self._client is not None:
            self._judge_lines()
        self._report.frames += len(self.tape.frames)
        self._on_close(self.scenario.name, self.tape)

    def _judge_lines(self) -> None:
        client = self.client
        lines = [client, *(one.line for one in self.components.values())]
        hidden = [one.frame for one in client.wrapped.arrivals]
        hidden += [one.frame for one in client.plain.arrivals if "proxy/" in one.method]
        self.judge_frames(
            "R-PROXY-07", hidden, "only messages of an agent for the client", "one for a proxy"
        )
        for line in lines:
            self.judge_frames(
                "R-PROXY-21",
                [*line.reused_ids, *line.stray_cancels],
                "ids of open requests of this hop, each once",
                "another id",
            )
            self.judge_frames(
                "R-PROXY-21",
                line.wrapped_cancels,
                "`$/cancel_request` without an envelope",
                "one in an envelope",
            )
            self.judge_frames(
                "R-GEN-06",
                line.unknown_responses,
                "the id of an open request in each response",
                "a response with another id",
            )
            self.judge_frames(
                "R-STDIO-03", line.hop.faults, "only messages of the protocol", "another line"
            )
        for one in self.components.values():
            if one.line.wrapped.arrivals:
                self.judge_frames(
                    "R-PROXY-25",
                    one.line.other_dialect,
                    f"{self.dialect.request}, as in the handshake",
                    "another dialect",
                )

    # Findings.

    async def passed_on(
        self,
        origin: End,
        target: End,
        method: str,
        params: bytes | None,
        *,
        meta: bytes | None = None,
        is_request: bool = True,
    ) -> tuple[Sent | None, Arrival]:
        """Send a message at one end; judge that it arrives at another as it is.

        Raise `NoResponse` after a finding if it does not arrive.
        """
        sent: Sent | None = None
        if is_request:
            sent = origin.request(method, params, meta=meta)
            frame = sent.frame
        else:
            frame = origin.notify(method, params, meta=meta)
        found = await self.holds(lambda: bool(target.since(frame, method)))
        arrived = target.since(frame, method)
        right = found and arrived[0].is_request == is_request
        kind = "request" if is_request else "notification"
        self.add(
            "R-PROXY-08",
            right,
            frame,
            arrived[0].frame if arrived else None,
            expected=f"the {kind} {method} at the other end",
            got=("a message of the other kind" if arrived else "nothing"),
        )
        if not right:
            raise NoResponse(f"{method} did not pass")
        self.same("R-PROXY-15", params, arrived[0].params, frame, arrived[0].frame)
        return sent, arrived[0]

    async def answered(self, sent: Sent | None, text: bytes, answer: Frame) -> None:
        """Judge that a request gets this result, or error, of the other end."""
        assert sent is not None
        found = await self.holds(lambda: sent.response is not None)
        response = sent.response
        if not found or response is None:
            seen = (*sent.evidence, answer)
            self.add("R-PROXY-08", False, *seen, expected="the response", got="no response")
            raise NoResponse(f"no response to {sent.method}")
        text_found = response.error if response.result is UNSET else response.result
        self.same("R-PROXY-08", text, text_found, answer, response.frame)


def member(params: Any, name: str) -> Any:
    """Return a member of params; None if there is none."""
    return params.get(name) if is_object(params) else None


# Makes the contexts of scenarios for conductors, and finds out which versions work.


class ConductorProbe:
    """Initializes a chain in each version; `launch` makes what starts one conductor."""

    def __init__(
        self,
        launch: Callable[[], Launch],
        names: Sequence[str],
        dialect: Dialect,
        *,
        answer_s: float,
        on_close: Callable[[str, Tape], None] = lambda _, __: None,
    ) -> None:
        self._launch = launch
        self._names = names
        self._dialect = dialect
        self._answer_s = answer_s
        self._on_close = on_close

    def make_context(
        self, scenario: Scenario[ConductorContext], version: int, report: Report
    ) -> ConductorContext:
        """Return the context of a scenario."""
        return ConductorContext(
            scenario,
            version,
            self._dialect,
            self._names,
            answer_s=self._answer_s,
            report=report,
            launch=self._launch(),
            on_close=self._on_close,
        )

    async def __call__(self, version: int, report: Report) -> str:
        """Return why the conductor does not support a version; empty if it does."""
        context = self.make_context(HANDSHAKE, version, report)
        try:
            await context.connect()
            sent = context.send_initialize()
            try:
                await sent.wait(self._answer_s)
            except NoResponse as silence:
                return await describe_silence(context.client.hop, silence)
            if sent.ok or sent.response is None:
                return ""
            return f"error {format_value(decoded(sent.response.error))}"
        finally:
            await context.aclose()
