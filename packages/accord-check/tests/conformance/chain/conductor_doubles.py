"""Conductors that break one rule each: the base conductor with one step changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from accord.transports.base import Frame, Transport
from accord.transports.memory import pair
from conformance.chain.base_conductor import BaseConductor
from conformance.chain.base_proxy import Fields, fields_of, joined

__all__ = ("DOUBLES", "ConductorDouble", "DoubleLaunch")

NAMES = ("proxy-0", "proxy-1", "agent")


class NodeEnd:
    """The conductor's end of a connection to one node."""

    def __init__(self, launch: DoubleLaunch, node: int, transport: Transport) -> None:
        self.launch = launch
        self.node = node
        self.transport = transport

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self.launch.conductor.receive(self.node, bytes(frame).decode())
        if self.launch.conductor.is_bounded and any(
            one.transport.congested for one in self.launch.nodes.values()
        ):
            self.transport.pause_reading()

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        raise AssertionError("the kit sends no frames that are too large")

    def eof_received(self, error: Exception | None) -> None:
        if self.node > 0 and not self.launch.is_over:
            self.launch.conductor.died(self.node)

    def writable(self) -> None:
        for one in self.launch.nodes.values():
            one.transport.resume_reading()


class DoubleLaunch:
    """A conductor in this process, with components that the kit plays."""

    def __init__(self, make: type[BaseConductor], dialect: str = "acp") -> None:
        self.nodes: dict[int, NodeEnd] = {}
        self.is_over = False
        self._closing: asyncio.Future[None] | None = None
        self._transports: list[Transport] = []
        self._on_component: Callable[[str, Transport], None] = lambda _, __: None
        self._held: dict[int, Transport] = {}
        self.conductor = make(len(NAMES), self._send, self._spawn, self._close, dialect)

    async def open(
        self, on_component: Callable[[str, Transport], None], noise: Callable[[str], None]
    ) -> Transport:
        self._on_component = on_component
        ends = [pair() for _ in range(len(NAMES) + 1)]
        for node, (mine, theirs) in enumerate(ends):
            self._transports += [mine, theirs]
            self._held[node] = mine
            self.nodes[node] = NodeEnd(self, node, theirs)
            await theirs.start(self.nodes[node])
        self.conductor.opened()
        return ends[0][0]

    def _send(self, node: int, text: str) -> None:
        self.nodes[node].transport.write([text.encode()])

    def _spawn(self, *nodes: int) -> None:
        for node in nodes or range(1, len(NAMES) + 1):
            if node in self._held:
                self._on_component(NAMES[node - 1], self._held.pop(node))

    def _close(self) -> None:
        self.is_over = True
        self._closing = asyncio.ensure_future(self.nodes[0].transport.aclose())

    async def aclose(self) -> None:
        self.is_over = True
        if self._closing is not None:
            await self._closing
        for transport in self._transports:
            await transport.aclose()


@dataclass(frozen=True)
class ConductorDouble:
    """A conductor that breaks `rule`, and the rules in `also` as a consequence."""

    rule: str
    make: type[BaseConductor]
    also: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"{self.rule}-{self.make.__name__}"


DOUBLES: list[ConductorDouble] = []


def breaks(
    rule: str, also: Iterable[str] = ()
) -> Callable[[type[BaseConductor]], type[BaseConductor]]:
    def register(make: type[BaseConductor]) -> type[BaseConductor]:
        DOUBLES.append(ConductorDouble(rule, make, frozenset(also)))
        return make

    return register


PROBE = '"_accord-check/probe"'
COUNT = '"_accord-check/count"'


@breaks("R-PROXY-01")
class ChangesTheResult(BaseConductor):
    def respond(self, node: int, fields: Fields) -> None:
        if self.waiting[node, fields["id"]] == self.first and "result" in fields:
            fields["result"] = fields["result"][:-1] + ',"mine":1}'
        super().respond(node, fields)


@breaks("R-PROXY-02")
class AgentIsInitializedAsAProxy(BaseConductor):
    def initialization(self, target: int, out: Fields) -> Fields:
        out = super().initialization(target, out)
        return {**out, "method": json.dumps(self.names[0])}


@breaks("R-PROXY-07")
class TellsTheClientOfItsChain(BaseConductor):
    def initialize(self, fields: Fields) -> None:
        super().initialize(fields)
        self.send(0, {"method": '"proxy/started"', "params": "{}"})


@breaks("R-PROXY-08")
class AnswersWithErrorsOfItsOwn(BaseConductor):
    def respond(self, node: int, fields: Fields) -> None:
        if "-31999" in fields.get("error", "") and self.waiting[node, fields["id"]] != self.first:
            fields["error"] = '{"code":-32603,"message":"It failed"}'
        super().respond(node, fields)


@breaks("R-PROXY-08")
class EverythingIsARequest(BaseConductor):
    """Gives wrapped notifications an id."""

    def deliver(self, source: int, target: int, out: Fields) -> None:
        if out["method"] == PROBE and "id" not in out and target == self.agent:
            out["id"] = '"mine"'
        super().deliver(source, target, out)


@breaks("R-PROXY-09")
class RemovesUnknownFields(BaseConductor):
    def initialization(self, target: int, out: Fields) -> Fields:
        out = super().initialization(target, out)
        params = fields_of(out["params"])
        params.pop("accordCheckLater", None)
        return {**out, "params": joined(params)}


@breaks("R-PROXY-10")
class AcceptsProxyInitialize(BaseConductor):
    def refuse(self, node: int, fields: Fields) -> None:
        self.send(node, {"id": fields["id"], "result": "{}"})


@breaks("R-PROXY-15")
class LosesArrays(BaseConductor):
    def forward(self, source: int, target: int, fields: Fields) -> None:
        if fields.get("params", "").startswith("["):
            del fields["params"]
        super().forward(source, target, fields)


@breaks("R-PROXY-16", also=["R-PROXY-15"])
class CopiesMetaOfTheEnvelope(BaseConductor):
    def unwrapped(self, inner: Fields) -> Fields:
        out = super().unwrapped(inner)
        if "_meta" in inner:
            params = fields_of(out["params"])
            meta = {**fields_of(params.get("_meta", "{}")), **fields_of(inner["_meta"])}
            out["params"] = joined({**params, "_meta": joined(meta)})
        return out


@breaks("R-PROXY-17")
class ResultForADeadSuccessor(BaseConductor):
    def died(self, node: int) -> None:
        for key, (source, theirs) in list(self.waiting.items()):
            if source > 0:
                self.send(source, {"id": theirs, "result": '{"error":"it exited"}'})
                del self.waiting[key]
        super().died(node)


@breaks("R-PROXY-18")
class NotificationsInAnotherOrder(BaseConductor):
    held: tuple[int, int, Fields] | None = None

    def deliver(self, source: int, target: int, out: Fields) -> None:
        number = json.loads(out["params"]).get("n") if out["method"] == COUNT else None
        if number == 7 and target == self.agent:
            self.held = source, target, out
            return
        super().deliver(source, target, out)
        if number == 8 and self.held is not None:
            super().deliver(*self.held)
            self.held = None


@breaks("R-PROXY-18")
class ResponsesOvertake(BaseConductor):
    """As a conductor whose responses do not wait for its queue."""

    held: tuple[int, int, Fields] | None = None

    def deliver(self, source: int, target: int, out: Fields) -> None:
        number = json.loads(out["params"]).get("n") if out["method"] == COUNT else None
        if number == 99 and target == 0:
            self.held = source, target, out
            return
        super().deliver(source, target, out)

    def respond(self, node: int, fields: Fields) -> None:
        to_client = self.waiting[node, fields["id"]][0] == 0
        super().respond(node, fields)
        if self.held is not None and to_client:
            super().deliver(*self.held)
            self.held = None


@breaks("R-PROXY-19")
class WaitsForAProxy(BaseConductor):
    """Forwards nothing of a proxy that has not answered a request."""

    def forward(self, source: int, target: int, fields: Fields) -> None:
        if fields["method"] == COUNT and any(
            node == source and '"_accord-check' in self.open_methods.get(own, "")
            for node, own in self.waiting
        ):
            return
        super().forward(source, target, fields)
        if "id" in fields:
            self.open_methods[self.forwarded[source, fields["id"]][1]] = fields["method"]


@breaks("R-PROXY-19")
class UnboundedQueue(BaseConductor):
    is_bounded = False


@breaks("R-PROXY-20")
class DecodesAndEncodes(BaseConductor):
    def forward(self, source: int, target: int, fields: Fields) -> None:
        if "params" in fields:
            fields["params"] = json.dumps(json.loads(fields["params"]))
        super().forward(source, target, fields)


@breaks("R-PROXY-21")
class NeverCancels(BaseConductor):
    def send_cancel(self, target: int, own: str) -> None:
        return


@breaks("R-PROXY-21")
class ForwardsCancellations(BaseConductor):
    """Sends the id of the other hop as well."""

    def cancel(self, node: int, fields: Fields) -> None:
        super().cancel(node, fields)
        self.send(self.agent, {"method": fields["method"], "params": fields["params"]})


@breaks("R-PROXY-22")
class ErrorsWithoutTheComponent(BaseConductor):
    def died(self, node: int) -> None:
        for source, theirs in self.waiting.values():
            self.send(source, {"id": theirs, "error": '{"code":-32603,"message":"It exited"}'})
        self.waiting.clear()
        super().died(node)


@breaks("R-PROXY-22")
class OutlivesItsComponents(BaseConductor):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.close = lambda: None


@breaks("R-PROXY-23")
class AnotherErrorForTheSecondInitialize(BaseConductor):
    def initialize(self, fields: Fields) -> None:
        if self.failure:
            self.failure = '{"code":-32600,"message":"initialize was called before"}'
        super().initialize(fields)


@breaks("R-PROXY-24")
class StartsAtOnce(BaseConductor):
    def opened(self) -> None:
        self.start()


@breaks("R-PROXY-24")
class StartsOneAfterTheOther(BaseConductor):
    def start(self) -> None:
        return

    def deliver(self, source: int, target: int, out: Fields) -> None:
        if out["method"] == '"initialize"' and source < target:
            self.spawn(target)
        super().deliver(source, target, out)


@breaks("R-PROXY-25")
class ChangesItsDialect(BaseConductor):
    def deliver(self, source: int, target: int, out: Fields) -> None:
        before = self.names
        if out["method"] == PROBE:
            self.names = (before[0], "_proxy/successor", "_proxy/successor")
        super().deliver(source, target, out)
        self.names = before


@breaks("R-GEN-06")
class AnswersTwice(BaseConductor):
    def respond(self, node: int, fields: Fields) -> None:
        source, theirs = self.waiting[node, fields["id"]]
        super().respond(node, fields)
        if source == 0 and self.is_started:
            self.send(0, {"id": theirs, "result": "{}"})


@breaks("R-STDIO-03")
class WritesLogLines(BaseConductor):
    def initialize(self, fields: Fields) -> None:
        self.write(0, "INFO initialize")
        super().initialize(fields)
