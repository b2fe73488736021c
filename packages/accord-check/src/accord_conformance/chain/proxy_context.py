"""What a scenario for proxies gets: a proxy, of which the kit is the conductor and both ends.

`ProxyContext` plays both ends and judges what arrives. `ProxyProbe` makes the contexts, and finds
the dialect of a proxy.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec import UNSET, Struct, field

from accord.text.lenient_json import is_object
from accord.transports.base import Transport
from accord_conformance.chain.line import (
    DIALECTS,
    Arrival,
    ChainLine,
    Dialect,
    End,
    Sent,
    text_of,
)
from accord_conformance.chain.run import HANDSHAKE, ChainContext, describe_silence, shown
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

Json: TypeAlias = dict[str, Any]
# Starts the proxy; its output that is not a frame goes to the function.
ProxyConnect: TypeAlias = Callable[[Callable[[str], None]], Transport | Awaitable[Transport]]

AGENT_INFO: Json = {"name": "accord-check", "title": "Accord's conformance kit", "version": "1"}

RICH_V1: Json = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "acp": True},
    "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
}
RICH_V2: Json = {
    "session": {"prompt": {"image": {}}, "mcp": {"http": {}, "acp": {}}, "delete": {}},
}
# What every proxy is judged by, at the end of each connection.
LINE_RULES = ("R-PROXY-21", "R-PROXY-25", "R-REQCAN-11", "R-GEN-06", "R-STDIO-03")


class ProxySettings(Struct, kw_only=True):
    """How to test a proxy: `changes` are the methods that it changes or answers on purpose."""

    answer_s: float = 10.0
    changes: frozenset[str] = field(default_factory=frozenset[str])


class ProxyContext(ChainContext):
    """A running scenario; each `connect` starts a process of the proxy."""

    def __init__(
        self,
        scenario: Scenario[ProxyContext],
        version: int,
        dialect: Dialect,
        settings: ProxySettings,
        *,
        report: Report,
        connect: ProxyConnect,
        on_close: Callable[[str, Tape], None],
    ) -> None:
        super().__init__(scenario, version, report, "proxy", LINE_RULES)
        self.dialect = dialect
        self.settings = settings
        self._connect = connect
        self._on_close = on_close
        self._opened: list[ChainLine] = []

    # Connections.

    async def connect(self) -> ChainLine:
        """Start the proxy, and send nothing yet; raise `TransportError`."""
        hops: list[RawHop] = []
        made = self._connect(lambda noise: hops[0].noise_received(noise))
        transport = made if isinstance(made, Transport) else await made
        hop = RawHop(transport, Tape(), "conductor", "proxy")
        hops.append(hop)
        line = ChainLine(hop, self.dialect)
        self._opened.append(line)
        await hop.open()
        return line

    async def initialize(self, line: ChainLine, result: Json | None = None) -> Sent:
        """Initialize the proxy; its successor answers with this result; raise `NoResponse`."""
        sent = line.plain.request(
            self.dialect.initialize,
            encoded(self.dialect.initialize_params(initialize_params(self.version))),
        )
        await self.answer_initialize(line, sent, result)
        await sent.wait(self.settings.answer_s)
        return sent

    async def answer_initialize(
        self, line: ChainLine, sent: Sent, result: Json | None = None
    ) -> Arrival | None:
        """Answer the `initialize` of the proxy as its successor; None if it sends none."""
        await line.hop.wait_until(
            lambda: bool(sent.response or line.wrapped.since(sent.frame)),
            "initialize for the successor",
            self.settings.answer_s,
        )
        for arrival in line.wrapped.since(sent.frame):
            if arrival.is_request and not arrival.is_answered:
                arrival.reply(encoded(result or initialize_result(self.version)))
                return arrival
        return None

    async def start(self) -> ChainLine:
        """Start the proxy and initialize it; raise `NotExercised` if it refuses."""
        line = await self.connect()
        sent = await self.initialize(line)
        if not sent.ok:
            raise NotExercised("the proxy refused the handshake")
        return line

    @property
    def has_exited(self) -> bool:
        """Whether a proxy has disconnected although the scenario did not end it."""
        return any(line.hop.is_closed for line in self._opened) and not self.may_exit

    async def aclose(self) -> None:
        """Stop the proxies, and judge what concerns whole connections."""
        while self._opened:
            line = self._opened.pop()
            await line.hop.aclose()
            self._report.frames += len(line.hop.tape.frames)
            self._judge_line(line)
            self._on_close(self.scenario.name, line.hop.tape)

    def _judge_line(self, line: ChainLine) -> None:
        arrived = [*line.plain.arrivals, *line.wrapped.arrivals]
        if any(one.is_request for one in arrived):
            self.judge_frames(
                "R-PROXY-21",
                line.reused_ids,
                "an id that no open request of this hop has",
                "the id of an open request",
            )
        self.judge_frames(
            "R-PROXY-21",
            line.wrapped_cancels,
            "`$/cancel_request` without an envelope, with the id of this hop",
            "one in an envelope",
        )
        if line.wrapped.arrivals:
            self.judge_frames(
                "R-PROXY-25",
                line.other_dialect,
                f"{self.dialect.request}, as in the handshake",
                "another dialect",
            )
        self.judge_frames(
            "R-REQCAN-11",
            line.stray_cancels,
            "only cancellations of open requests, by the ids of this hop",
            "an id that no open request of this hop has",
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

    # Findings.

    async def forwarded(
        self,
        origin: End,
        method: str,
        params: bytes | None,
        *,
        meta: bytes | None = None,
        is_request: bool = True,
        ident: str | int | None = None,
    ) -> tuple[Sent | None, Arrival | None]:
        """Send a message through the proxy; judge that it arrives at the other end as it is.

        Without an arrival the second part is None. Messages that the proxy may change are not
        judged.
        """
        line = origin.line
        target = line.wrapped if origin is line.plain else line.plain
        sent: Sent | None = None
        if is_request:
            sent = origin.request(method, params, meta=meta, ident=ident)
            frame = sent.frame
        else:
            frame = origin.notify(method, params, meta=meta)
        await line.hop.tape.wait_until(
            lambda: bool(
                target.since(frame, method) or (sent and sent.response) or line.hop.is_closed
            ),
            self.settings.answer_s,
        )
        arrived = target.since(frame, method)
        if method in self.settings.changes:
            return sent, arrived[0] if arrived else None
        self.add(
            "R-PROXY-04",
            bool(arrived),
            *(sent.evidence if sent else (frame,)),
            expected=f"{method} at the other end",
            got=sent.describe() if sent and sent.response else "nothing",
        )
        if not arrived:
            return sent, None
        self._compare(frame, params, arrived[0])
        return sent, arrived[0]

    def _compare(self, frame: Frame, params: bytes | None, arrival: Arrival) -> None:
        seen = (frame, arrival.frame)
        before, after = (
            _meta(encoded(None) if params is None else params),
            _meta(text_of(arrival.params)),
        )
        if before is not None:
            self.add(
                "R-PROXY-05",
                before == after,
                *seen,
                expected="the same `_meta`",
                got=shown(encoded(after)),
            )
        self.same("R-PROXY-15", params, arrival.params, *seen)

    def compare_response(self, sent: Sent, text: bytes, answer: Frame) -> None:
        """Judge that the response to a request has this result, or error."""
        response = sent.response
        if response is None or sent.method in self.settings.changes:
            return
        found = response.error if response.result is UNSET else response.result
        self.same("R-PROXY-08", text, found, answer, response.frame)

    async def answered(self, rule: str, sent: Sent, answer: Frame) -> bool:
        """Judge that a request gets the response of the other end."""
        try:
            await sent.wait(self.settings.answer_s)
        except NoResponse as silence:
            seen = (*sent.evidence, answer)
            self.add(rule, False, *seen, expected="the response of the other end", got=str(silence))
            return False
        return True


def initialize_params(version: int) -> Json:
    """Return the params of `initialize`."""
    if version == 1:
        return {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": AGENT_INFO}
    return {"protocolVersion": 2, "capabilities": {}, "info": AGENT_INFO}


def initialize_result(version: int, *, rich: bool = True) -> Json:
    """Return the result of `initialize` of the successor, with or without capabilities."""
    if version == 1:
        capabilities: Json = RICH_V1 if rich else {}
        names: Json = {"agentCapabilities": capabilities, "agentInfo": AGENT_INFO}
    else:
        names = {"capabilities": RICH_V2 if rich else {"session": {}}, "info": AGENT_INFO}
    return {"protocolVersion": version, **names, "authMethods": []}


def _meta(params: bytes) -> Any:
    value = json.loads(params, parse_int=float)
    return value.get("_meta") if is_object(value) else None


# Finds the dialect of a proxy, and whether it supports a version.

_UNKNOWN_METHOD = -32601


class ProxyProbe:
    """Initializes a proxy in each version; `dialect` is the one that it understands.

    Without a dialect, each is tried: a proxy answers that it does not know the method of another.
    """

    def __init__(
        self,
        connect: ProxyConnect,
        settings: ProxySettings,
        dialect: Dialect | None,
        on_close: Callable[[str, Tape], None],
    ) -> None:
        self.dialect = dialect or DIALECTS["acp"]
        self._is_known = dialect is not None
        self._connect = connect
        self._settings = settings
        self._on_close = on_close

    def make_context(
        self, scenario: Scenario[ProxyContext], version: int, report: Report
    ) -> ProxyContext:
        """Return the context of a scenario."""
        return ProxyContext(
            scenario,
            version,
            self.dialect,
            self._settings,
            report=report,
            connect=self._connect,
            on_close=self._on_close,
        )

    async def __call__(self, version: int, report: Report) -> str:
        """Return why the proxy does not support a version; empty if it does."""
        if self._is_known:
            return (await self._try(version, report))[0]
        first = ""
        for dialect in DIALECTS.values():
            self.dialect = dialect
            why, code = await self._try(version, report)
            if code != _UNKNOWN_METHOD:
                self._is_known = not why
                return why
            first = first or why
        self.dialect = DIALECTS["acp"]
        return first

    async def _try(self, version: int, report: Report) -> tuple[str, object]:
        context = self.make_context(HANDSHAKE, version, report)
        try:
            line = await context.connect()
            try:
                sent = await context.initialize(line)
            except NoResponse as silence:
                return await describe_silence(line.hop, silence), None
            if sent.ok:
                return "", None
            assert sent.response is not None
            text = format_value(decoded(sent.response.error))
            return f"error {text}", sent.response.code
        finally:
            await context.aclose()
