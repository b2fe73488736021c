"""Proxies that break one rule each: the base proxy with one step changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from accord.transports.base import Frame, Transport
from accord.transports.memory import pair
from conformance.chain.base_proxy import AddingProxy, BaseProxy, Fields, fields_of, joined

__all__ = ("DOUBLES", "ConnectTo", "Double")

Write = Callable[[str], None]


class DoubleEnd:
    """The other end of the kit's connection: a proxy in this process."""

    def __init__(self, transport: Transport, make: Callable[[Write], BaseProxy]) -> None:
        self._transport = transport
        self.proxy = make(lambda text: transport.write([text.encode()]))

    def frames_received(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            self.proxy.receive(bytes(frame).decode())

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        raise AssertionError("the kit sends no large frames")

    def eof_received(self, error: Exception | None) -> None:
        return

    def writable(self) -> None:
        return


class ConnectTo:
    """Starts a proxy in this process, for a run of the kit. The test closes what is `opened`."""

    def __init__(self, make: Callable[[Write], BaseProxy]) -> None:
        self._make = make
        self.opened: list[Transport] = []

    async def __call__(self, _: Callable[[str], None]) -> Transport:
        mine, theirs = pair()
        self.opened.append(theirs)
        await theirs.start(DoubleEnd(theirs, self._make))
        return mine


@dataclass(frozen=True)
class Double:
    """A proxy that breaks `rule`, and the rules in `also` as a consequence."""

    rule: str
    make: type[BaseProxy]
    also: frozenset[str] = frozenset()
    versions: tuple[int, ...] = (1, 2)

    def __repr__(self) -> str:
        return f"{self.rule}-{self.make.__name__}"


DOUBLES: list[Double] = []


def breaks(
    rule: str, also: Iterable[str] = (), versions: tuple[int, ...] = (1, 2)
) -> Callable[[type[BaseProxy]], type[BaseProxy]]:
    def register(make: type[BaseProxy]) -> type[BaseProxy]:
        DOUBLES.append(Double(rule, make, also=frozenset(also), versions=versions))
        return make

    return register


PROBE = "_accord-check/probe"


@breaks("R-PROXY-03")
class ProxyWithoutProxyInitialize(BaseProxy):
    """Takes `initialize` as what initializes a proxy."""

    def forward(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if method == "initialize":
            self.is_proxy = True
        super().forward(fields, method, towards_client=towards_client)


@breaks("R-PROXY-04")
class DropsUnknownNotifications(BaseProxy):
    def forward(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if method.startswith("accord-check/") and "id" not in fields:
            return
        super().forward(fields, method, towards_client=towards_client)


@breaks("R-PROXY-04")
class RefusesUnknownRequests(BaseProxy):
    def forward(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if method.startswith("accord-check/") and "id" in fields:
            self.fail(fields["id"], -32601, "Method not found")
            return
        super().forward(fields, method, towards_client=towards_client)


@breaks("R-PROXY-05", also=["R-PROXY-15"])
class RemovesMeta(BaseProxy):
    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if method == PROBE and fields.get("params", "").startswith("{"):
            params = {
                name: text for name, text in fields_of(fields["params"]).items() if name != "_meta"
            }
            fields = {**fields, "params": joined(params)}
        super().send_on(fields, method, towards_client=towards_client)


@breaks("R-PROXY-06")
class AlwaysTheSameResponse(BaseProxy):
    def derive(self, fields: Fields) -> Fields:
        if "result" not in fields:
            return fields
        version = json.loads(fields["result"])["protocolVersion"]
        return {**fields, "result": json.dumps({"protocolVersion": version})}


@breaks("R-PROXY-06")
class SucceedsWithoutItsSuccessor(BaseProxy):
    def derive(self, fields: Fields) -> Fields:
        if "error" in fields:
            del fields["error"]
            fields["result"] = '{"protocolVersion":1}'
        return fields


@breaks("R-PROXY-08")
class RewritesErrors(BaseProxy):
    def respond(self, fields: Fields) -> None:
        if "error" in fields and fields["id"] in self.waiting and not self.initializing:
            code = json.loads(fields["error"])["code"]
            fields["error"] = json.dumps({"code": code, "message": "It failed"})
        super().respond(fields)


@breaks("R-PROXY-08")
class AddsToResults(BaseProxy):
    def respond(self, fields: Fields) -> None:
        if "zeta" in fields.get("result", ""):
            fields["result"] = fields["result"][:-1] + ',"mine":1}'
        super().respond(fields)


@breaks("R-PROXY-13")
class InitializesItsSuccessorLater(BaseProxy):
    def initialize(self, fields: Fields) -> None:
        version = json.loads(fields["params"])["protocolVersion"]
        result = {"protocolVersion": version, "authMethods": []}
        self.is_proxy = True
        self.send({"id": fields["id"], "result": json.dumps(result)})
        own = {**fields, "id": '"later"', "method": '"initialize"'}
        self.waiting['"later"'] = (fields["id"], True)
        self.send_on(own, "initialize", towards_client=False)

    def respond(self, fields: Fields) -> None:
        if fields["id"] != '"later"':
            super().respond(fields)


@breaks("R-PROXY-13")
class ForwardsProxyInitialize(BaseProxy):
    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if method == "initialize":
            fields = {**fields, "method": json.dumps(self.names[0])}
        super().send_on(fields, method, towards_client=towards_client)


@breaks("R-PROXY-14", versions=(2,))
class AsksForVersion1(BaseProxy):
    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if method == "initialize":
            params = fields_of(fields["params"])
            fields = {**fields, "params": joined({**params, "protocolVersion": "1"})}
        super().send_on(fields, method, towards_client=towards_client)


@breaks("R-PROXY-14", versions=(2,))
class AnswersWithItsOwnVersion(BaseProxy):
    def derive(self, fields: Fields) -> Fields:
        if "result" in fields:
            result = {**fields_of(fields["result"]), "protocolVersion": "2"}
            fields["result"] = joined(result)
        return fields


@breaks("R-PROXY-15")
class DropsUnknownFields(BaseProxy):
    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if fields.get("params", "").startswith("{"):
            params = fields_of(fields["params"])
            params.pop("later", None)
            fields = {**fields, "params": joined(params)}
        super().send_on(fields, method, towards_client=towards_client)


@breaks("R-PROXY-15")
class EmptyObjectInsteadOfNoParams(BaseProxy):
    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        super().send_on({"params": "{}", **fields}, method, towards_client=towards_client)


@breaks("R-PROXY-16", also=["R-PROXY-05", "R-PROXY-15"])
class CopiesMetaOfTheEnvelope(BaseProxy):
    def inner_params(self, outer: Fields, inner: Fields) -> Fields:
        if "_meta" not in inner or "params" not in inner:
            return super().inner_params(outer, inner)
        params = fields_of(inner["params"])
        meta = {**fields_of(params.get("_meta", "{}")), **fields_of(inner["_meta"])}
        return {"params": joined({**params, "_meta": joined(meta)})}


@breaks("R-PROXY-18")
class NotificationsInAnotherOrder(BaseProxy):
    held: Fields | None = None

    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        number = json.loads(fields.get("params", "{}")) if method.endswith("/count") else {}
        if number.get("n") == 7:
            self.held = fields
            return
        super().send_on(fields, method, towards_client=towards_client)
        if number.get("n") == 8 and self.held is not None:
            super().send_on(self.held, method, towards_client=towards_client)


@breaks("R-PROXY-18")
class ResponsesOvertake(BaseProxy):
    """Holds the last notification until the response has been forwarded."""

    held: tuple[Fields, str, bool] | None = None

    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if method.endswith("/count") and json.loads(fields["params"]).get("n") == 49:
            self.held = fields, method, towards_client
            return
        super().send_on(fields, method, towards_client=towards_client)

    def respond(self, fields: Fields) -> None:
        super().respond(fields)
        if self.held is not None:
            held, method, towards_client = self.held
            super().send_on(held, method, towards_client=towards_client)
            self.held = None


@breaks("R-PROXY-19")
class WaitsForResponses(BaseProxy):
    """Handles nothing but responses while a slow request is open."""

    def forward(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if self.is_waiting and method.endswith("/count"):
            return
        super().forward(fields, method, towards_client=towards_client)
        self.is_waiting |= method.endswith("/slow")

    is_waiting = False


@breaks("R-PROXY-20")
class DecodesAndEncodes(BaseProxy):
    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if "params" in fields:
            fields = {**fields, "params": json.dumps(json.loads(fields["params"]))}
        super().send_on(fields, method, towards_client=towards_client)


@breaks("R-PROXY-21")
class OneIdForAll(BaseProxy):
    """Uses one id for two requests that are open at the same time."""

    def new_id(self) -> str:
        own = super().new_id()
        return '"own-2"' if own == '"own-3"' and '"own-2"' in self.waiting else own


@breaks("R-PROXY-21")
class WrapsCancellations(BaseProxy):
    def send_cancel(self, own: str) -> None:
        cancel = {"method": '"$/cancel_request"', "params": f'{{"requestId":{own}}}'}
        self.send({"method": json.dumps(self.names[2]), "params": joined(cancel)})


@breaks("R-PROXY-25")
class ChangesItsDialect(BaseProxy):
    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        before = self.names
        if method == PROBE:
            self.names = (before[0], "_proxy/successor", "_proxy/successor")
        super().send_on(fields, method, towards_client=towards_client)
        self.names = before


@breaks("R-REQCAN-11")
class NeverCancels(BaseProxy):
    def send_cancel(self, own: str) -> None:
        return


@breaks("R-REQCAN-11")
class ForwardsCancellations(BaseProxy):
    """Forwards the id of the other hop."""

    def cancel(self, fields: Fields) -> None:
        self.send({"method": '"$/cancel_request"', "params": fields["params"]})


@breaks("R-MOA-10", also=["R-PROXY-15"])
class RequestIdsOfItsOwn(BaseProxy):
    def send_on(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        if method == "mcp/message" and towards_client:
            params = fields_of(fields["params"])
            fields = {**fields, "params": joined({**params, "requestId": '"own"'})}
        super().send_on(fields, method, towards_client=towards_client)


@breaks("R-MOA-02")
class UsesAServerIdAgain(AddingProxy):
    def server_id(self) -> str:
        return "added-once"


@breaks("R-MOA-06")
class AnswersWithTwoOutcomes(AddingProxy):
    def answer(self, request: str, method: str) -> None:
        if method == "tools/list":
            both = {"result": {}, "error": {"code": -32603, "message": "Both"}}
            self.send({"id": request, "result": json.dumps(both)})
        else:
            super().answer(request, method)


@breaks("R-MOA-08")
class ForwardsMessagesForItsServer(AddingProxy):
    def server_id(self) -> str:
        return f"of-nobody-{self.added}"


@breaks("R-MOA-12")
class AnswersWithErrorsOfTheServer(AddingProxy):
    def answer(self, request: str, method: str) -> None:
        if method == "tools/list":
            super().answer(request, method)
        else:
            self.fail(request, -32601, "Method not found")


@breaks("R-GEN-06")
class AnswersNotifications(BaseProxy):
    def forward(self, fields: Fields, method: str, *, towards_client: bool) -> None:
        super().forward(fields, method, towards_client=towards_client)
        if "id" not in fields:
            self.send({"id": "null", "result": "{}"})


@breaks("R-STDIO-03")
class WritesLogLines(BaseProxy):
    def receive(self, text: str) -> None:
        if PROBE in text:
            self._write("INFO received a message")
        super().receive(text)
