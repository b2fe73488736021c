"""A component of a chain that is a program: what the conductor knows of one proxy."""

from __future__ import annotations

from msgspec import UNSET

from accord.errors import InvalidRequest, MethodNotFound, RequestError
from accord.jsonrpc.message import RequestId
from accord.proxy.dialects import (
    ACP,
    PROXY_INITIALIZE,
    RUST,
    SUCCESSOR,
    THINKWELL,
    Dialect,
    is_proxy_initialize,
    marked_as_proxy,
    unmarked,
    unwrap,
    wrap,
)
from accord.proxy.hop import Hop, Hops
from accord.proxy.runs import Run
from accord.proxy.stage import Direction, Params, Port, RawRequest, RawResponse, Stage
from accord.proxy.two_sided import TwoSidedHop
from accord.transports.base import Transport

# Of programs that do not know a method; many refuse everything but `initialize` at first.
_UNKNOWN = (MethodNotFound.default_code, InvalidRequest.default_code)


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
