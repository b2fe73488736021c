"""One connection, both versions: `initialize` decides which version is used.

`serve` is the agent's side, `connect` the client's. Each takes a role of one version, or one role
of each. `AgentHandshake` and `ClientHandshake` agree on a version and open the role that serves it;
`InitializeParams` reads the params for programs without a role, such as proxies.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from msgspec import Raw, Struct

from accord.connection.connection import Connection, Observer
from accord.connection.limits import Limits
from accord.connection.routes import Context, Route, Routes
from accord.connection.tasks import discard
from accord.errors import (
    AccordError,
    DecodeError,
    InvalidParams,
    InvalidRequest,
    RemoteProtocolError,
    RequestError,
    StartError,
    TransportError,
    UnsupportedVersion,
)
from accord.jsonrpc.message import RequestId
from accord.roles.binding import LazyRole, Role, RolesByVersion, routes_for
from accord.roles.remote import Remote
from accord.rules.negotiation import (
    AgentLifecycle,
    negotiated_version,
    requested_version,
    select,
    v1_params_of,
    v2_params_of,
)
from accord.rules.quirks import QUIRKS, tolerates
from accord.text import lenient_json
from accord.transports.base import Transport, TransportFactory, opened
from accord.version import ProtocolVersion
from accord.wire.base import replace
from accord.wire.codec import convert, decoder, overlay
from accord.wire.protocol import ProtocolSpec


class InitializeParams(Struct, frozen=True):
    """The params of `initialize`, decoded without a role.

    `requested` is the version that the client asks for, `version` the one that is chosen, and
    `params` the `InitializeRequest` of that version. `raw` holds all keys as builtin values.
    """

    requested: int
    version: ProtocolVersion
    params: Any
    raw: dict[str, Any]

    @staticmethod
    def read(text: bytes, specs: Collection[ProtocolSpec]) -> InitializeParams:
        """Choose one of these versions and decode the params.

        Raise `InvalidParams` if they do not fit, `VersionNotOffered` if no version does.
        """
        raw = lenient_json.loads(text)
        requested = requested_version(raw)
        by_version: dict[ProtocolVersion, ProtocolSpec] = {spec.version: spec for spec in specs}
        version = select(requested, by_version.keys())
        params = decode_params(by_version[version], requested, text, raw)
        return InitializeParams(requested, version, params, raw)

    def with_changes(self, params: Any) -> bytes:
        """Return the JSON text of changed params; keys that the type does not have are kept."""
        return lenient_json.dumps(overlay(self.raw, self.params, params))


def decode_params(spec: ProtocolSpec, requested: int, text: bytes, raw: dict[str, Any]) -> Any:
    """Decode params as those of a version; raise `InvalidParams`."""
    translated = raw
    if spec.version == 1:
        translated = v1_params_of(raw)
    elif requested > spec.version:
        translated = v2_params_of(raw)
    try:
        if translated is raw:
            return decoder(spec.initialize_request)(text)
        return convert(translated, spec.initialize_request)
    except DecodeError as exc:
        data = {"path": exc.where, "reason": exc.message}
        raise InvalidParams(f"Invalid params: {exc}", data=data) from None


# The agent's side.

log: logging.Logger = logging.getLogger("accord.roles.handshake")


class AgentHandshake:
    """Serves `initialize`, then installs the routes of the chosen role."""

    def __init__(self, connection: Connection, agents: RolesByVersion) -> None:
        self._connection = connection
        self._agents = agents
        self._lifecycle = AgentLifecycle()
        self._initialize = Route(decode=bytes, handler=self._handle)
        self._routes: Routes | None = None  # of the last successful initialize

    def first_routes(self) -> Routes:
        """Return the routes until `initialize` has succeeded: only `initialize` is served."""

        def fallback(method: str, _is_request: bool) -> RequestError:
            return self._lifecycle.too_early(method)

        return Routes(
            requests={"initialize": self._initialize},
            notifications={},
            context=lambda request_id: Context(self._connection, request_id),
            fallback=fallback,
        )

    def _handle(self, text: bytes, context: Context) -> Any:
        raw = lenient_json.loads(text)
        requested = requested_version(raw)
        self._lifecycle.begin(requested)
        try:
            version = select(requested, self._agents.versions)
            if version == 2 and context.request_id is None:
                raise InvalidRequest("The id of initialize must not be null")  # R-ROUTE-03
            agent = self._agents.get(version)
            params = decode_params(agent.spec, requested, text, raw)
            remote = agent.remote_class(self._connection, params)
            role_context = agent.context_class(self._connection, context.request_id, remote)
            outcome = agent.initialize(params, role_context)
            if not inspect.isawaitable(outcome):
                return self._complete(agent, remote, params, outcome)
        except BaseException:
            self._fail()
            raise
        if self._lifecycle.version == 2:
            self._connection.serve(self.first_routes())  # R-INIT-35
        complete = partial(self._complete, agent, remote, params)
        return _PendingInitialize(outcome, complete, self._fail)

    def _fail(self) -> None:
        self._lifecycle.fail()
        if self._routes is not None:
            self._connection.serve(self._routes)

    def _complete(self, agent: Any, remote: Remote, params: Any, result: Any) -> Any:
        version = agent.spec.version
        result = replace(result, protocol_version=version)  # roles cannot choose it
        capabilities = {
            "agent": agent.spec.agent_capabilities(result),
            "client": agent.spec.client_capabilities(params),
        }
        remote.set_capabilities(capabilities)

        def context(request_id: RequestId) -> Any:
            return agent.context_class(self._connection, request_id, remote)

        routes = routes_for(agent, capabilities, context)
        if version == 2:
            _report_requests(routes, self._lifecycle.use)
            self._connection.refuse_null_ids()
        routes.requests["initialize"] = self._initialize
        self._routes = routes
        self._connection.serve(routes)
        self._lifecycle.complete(version)
        log.debug("= protocol version %d", version)
        return result


class _PendingInitialize:
    """An `initialize` whose handler is still running; `close` makes it fail."""

    def __init__(
        self, outcome: Awaitable[Any], complete: Callable[[Any], Any], fail: Callable[[], None]
    ) -> None:
        self._outcome = outcome
        self._complete = complete
        self._fail = fail

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._run().__await__()

    async def _run(self) -> Any:
        try:
            return self._complete(await self._outcome)
        except BaseException:
            self._fail()
            raise

    def close(self) -> None:
        discard(self._outcome)
        self._fail()


def _report_requests(routes: Routes, on_request: Callable[[], None]) -> None:
    """Call `on_request` before every request is handled (R-INIT-34)."""

    def reporting(handler: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def handle(params: Any, context: Any) -> Any:
            on_request()
            return handler(params, context)

        return handle

    find = routes.fallback

    def fallback(method: str, is_request: bool) -> Route | RequestError:
        if is_request:
            on_request()
        return find(method, is_request)

    for route in routes.requests.values():
        route.handler = reporting(route.handler)
    routes.fallback = fallback


# The client's side.

_OTHER_VERSION = "`connect(versions=…)`, `accord ask --protocol 1|2`"


class ClientHandshake:
    """Sends `initialize`, then installs the routes of the role that the result selects."""

    def __init__(
        self,
        transport: TransportFactory | Transport,
        clients: RolesByVersion,
        *,
        limits: Limits | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._transport = transport
        self._clients = clients
        self._limits = limits
        self._observers = observers
        self._connection: Connection | None = None

    async def open(self) -> Any:
        """Connect, initialize, and return the agent's `Remote`."""
        connection = await self._start()
        newest = max(self._clients.versions)
        try:
            answer = await self._initialize(connection, newest)
        except RequestError as exc:
            if (
                exc.code != InvalidParams.default_code
                or newest == 1
                or 1 not in self._clients.versions
            ):
                raise _refusal(exc, newest) from await _start_error(connection, exc) or exc
            connection, answer = await self._fall_back(connection, exc)
            newest = answer.version
        if answer.version != newest and self._clients.get(answer.version).advertises_capabilities():
            # A v1 agent has not read the capabilities of a v2 request. Send them again as v1
            # (R-INIT-15), on this connection if it allows that (R-INIT-39), else on a new one.
            try:
                answer = await self._initialize(connection, answer.version)
            except (RequestError, RemoteProtocolError, TransportError):
                if isinstance(self._transport, Transport):
                    raise
                log.debug("= initialize cannot be repeated; connecting again")
                await connection.aclose()
                connection = await self._start()
                answer = await self._initialize(connection, answer.version)
        return answer.open()

    @tolerates("v2-refused-as-invalid")
    async def _fall_back(
        self, connection: Connection, refusal: RequestError
    ) -> tuple[Connection, _CompletedInitialize]:
        """Ask for version 1 after the agent refused the params of version 2."""
        log.debug("= the agent refuses version 2 as invalid params; asking for version 1")
        try:
            if not isinstance(self._transport, Transport):
                await connection.aclose()
                connection = await self._start()
            return connection, await self._initialize(connection, 1)
        except RequestError as exc:
            raise _refusal(exc, 1) from refusal

    async def explain(self, error: Exception) -> None:
        """Add to an error what the agent's process wrote last."""
        if self._connection is not None:
            await self._connection.transport.explain(error)

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            await self._connection.aclose()

    async def _start(self) -> Connection:
        self._connection = Connection(await opened(self._transport), limits=self._limits)
        for observer in self._observers:
            self._connection.observe(observer)
        self._connection.hold()  # R-INIT-36
        await self._connection.start(_nothing_served(self._connection))
        return self._connection

    async def _initialize(
        self, connection: Connection, version: ProtocolVersion
    ) -> _CompletedInitialize:
        params = self._clients.get(version).initialize_params()
        params = replace(params, protocol_version=version)  # roles cannot choose it

        def complete(text: bytes | Raw) -> _CompletedInitialize:
            return self._complete(connection, params, version, text)

        try:
            return await connection.call("initialize", params, complete)
        except RequestError as exc:
            if exc.code == -32022 or exc.code in QUIRKS["version-refused-code"].codes:
                raise UnsupportedVersion(
                    f"The agent refuses protocol version {version}: {exc.text}"
                    f" (to choose another: {_OTHER_VERSION})",
                    raw=exc.data,
                ) from exc
            raise

    def _complete(
        self, connection: Connection, params: Any, asked: ProtocolVersion, text: bytes | Raw
    ) -> _CompletedInitialize:
        raw = lenient_json.loads(bytes(text))
        version = negotiated_version(raw, self._clients.versions)
        client = self._clients.get(version)
        try:
            result = decoder(client.spec.initialize_response)(text)
        except DecodeError as exc:
            raise RemoteProtocolError(f"The result of initialize does not fit: {exc}") from None
        result = replace(result, protocol_version=version)  # a false v2 has another one
        capabilities = client.spec.client_capabilities(params) if version == asked else None
        return _CompletedInitialize(connection, client, result, capabilities)


def _refusal(error: RequestError, version: ProtocolVersion) -> RequestError:
    """Return the error with a hint; an agent may accept another version."""
    if _is_of_chain(error):
        return error
    hint = f"refused `initialize` of version {version}; to choose another: {_OTHER_VERSION}"
    hinted = RequestError.of(error.code, f"{error.message} ({hint})", error.data)
    hinted.origin = error.origin
    return hinted


def _is_of_chain(error: RequestError) -> bool:
    """Return whether a component of a chain is missing or has ended."""
    return lenient_json.is_object(error.data) and "component" in error.data


async def _start_error(connection: Connection, error: RequestError) -> StartError | None:
    """Close the connection to a chain that has failed; return why it could not be started.

    It has what is not in the answer, which can be for another machine: the value of PATH.
    """
    if not _is_of_chain(error):
        return None
    await connection.aclose()
    ended = await connection.transport.exit_error()
    return ended if isinstance(ended, StartError) else None


class _CompletedInitialize:
    """A successful `initialize`; `open` releases the messages that were held."""

    def __init__(self, connection: Connection, client: Any, result: Any, capabilities: Any) -> None:
        self._connection = connection
        self._client = client
        self._result = result
        self._capabilities = capabilities
        self.version: ProtocolVersion = client.spec.version

    def open(self) -> Any:
        client, connection = self._client, self._connection
        capabilities = {
            "agent": client.spec.agent_capabilities(self._result),
            "client": self._capabilities,
        }
        remote = client.remote_class(connection, self._result)
        remote.set_capabilities(capabilities)

        def context(request_id: RequestId) -> Any:
            return client.context_class(connection, request_id, remote)

        if self.version == 2:
            connection.refuse_null_ids()
        connection.serve(routes_for(client, capabilities, context))
        connection.release()
        log.debug("= protocol version %d", self.version)
        return remote


def _nothing_served(connection: Connection) -> Routes:
    def fallback(method: str, _is_request: bool) -> RequestError:
        return AgentLifecycle.too_early(method)

    return Routes(
        requests={},
        notifications={},
        context=lambda request_id: Context(connection, request_id),
        fallback=fallback,
    )


RemoteT = TypeVar("RemoteT", bound=Remote)


async def serve(
    transport: TransportFactory | Transport,
    *agents: Role[Any] | LazyRole[Any],
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
) -> None:
    """Serve one client until it disconnects.

    Raise `TransportError` if the client cannot be reached.
    """
    connection = Connection(await opened(transport), limits=limits)
    for observer in observers:
        connection.observe(observer)
    try:
        handshake = AgentHandshake(connection, RolesByVersion(agents, "agent"))
        await connection.start(handshake.first_routes())
        await connection.wait_ended()
    finally:
        await connection.aclose()


def run(agent: Role[Any]) -> None:
    """Serve one client on stdin and stdout until it disconnects."""
    from accord.transports.stdio import stdio  # clients do not need it

    asyncio.run(serve(stdio(restore=False), agent))


@asynccontextmanager
async def connect(
    transport: TransportFactory | Transport,
    *clients: Role[RemoteT] | LazyRole[RemoteT],
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
    initialize_timeout_s: float = 120.0,
) -> AsyncGenerator[RemoteT, None]:
    """Connect to an agent, send `initialize`, and yield the agent's `Remote`.

    The connection is closed at the end of the block. Raise `TransportError` if the agent cannot
    be reached or started, `UnsupportedVersion` if it speaks none of the clients' versions,
    `RequestError` if it refuses, `TimeoutError` if it does not respond in time.
    """
    handshake = ClientHandshake(
        transport, RolesByVersion(clients, "client"), limits=limits, observers=observers
    )
    try:
        timeout = asyncio.timeout(initialize_timeout_s)
        try:
            async with timeout:
                remote = await handshake.open()
        except AccordError as error:
            await handshake.explain(error)
            raise
        except TimeoutError:
            if not timeout.expired():
                raise
            within = f"within {initialize_timeout_s:g} s"
            late = TimeoutError(f"The agent did not respond to `initialize` {within}")
            await handshake.explain(late)
            raise late from None
        yield remote
    finally:
        await handshake.aclose()
