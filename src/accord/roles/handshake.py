"""One connection, both versions: `initialize` settles which one is spoken.

`serve` is the agent's side, `connect` the client's. Either takes one role object of a version,
or one of each.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from msgspec import Raw, Struct

from accord.connection.connection import Connection, Observer
from accord.connection.routes import Context, Limits, Route, Routes
from accord.connection.tasks import discard
from accord.errors import (
    DecodeError,
    InvalidParams,
    InvalidRequest,
    RemoteProtocolError,
    RequestError,
    TransportError,
    UnsupportedVersion,
)
from accord.jsonrpc.message import RequestId
from accord.roles.binding import Remote, Role, routes_for
from accord.rules.lifecycle import AgentLifecycle
from accord.rules.negotiation import negotiated_version, requested_version, select, v1_params_of
from accord.rules.quirks import QUIRKS, tolerates
from accord.text import lenient_json
from accord.transports.base import Transport, TransportFactory
from accord.version import ProtocolVersion
from accord.wire.base import replace
from accord.wire.codec import convert, decoder
from accord.wire.method import Side

__all__ = ("LazyRole", "connect", "serve")

log = logging.getLogger("accord.roles.handshake")

R = TypeVar("R", bound=Remote)

_OTHER_VERSION = "`connect(versions=…)`, `accord ask --protocol 1|2`"


class LazyRole(Struct, frozen=True):
    """A role object of a version that is made, and perhaps imported, when it is spoken."""

    version: ProtocolVersion
    make: Callable[[], Any]


def _by_version(roles: Sequence[Any], side: Side) -> dict[ProtocolVersion, Any]:
    for role in roles:
        # A class is a likely slip, and the other side's role another.
        if not isinstance(role, LazyRole) and (isinstance(role, type) or role.side != side):
            raise TypeError(f"Expected objects that play the {side}, got {role!r}")
    by_version: dict[ProtocolVersion, Any] = {
        role.version if isinstance(role, LazyRole) else role.kit.version: role for role in roles
    }
    if not roles or len(by_version) != len(roles):
        raise ValueError("Expected one role object, or one of each protocol version")
    return by_version


# The agent's side.


async def serve(
    transport: Transport,
    *agents: Role | LazyRole,
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
) -> None:
    """Serve one client until it hangs up; raise `TransportError` when there is no way to it."""
    connection = Connection(transport, limits=limits)
    for observer in observers:
        connection.observe(observer)
    try:
        await connection.start(
            _AgentHandshake(connection, _by_version(agents, "agent")).routes_before()
        )
        await connection.wait_ended()
    finally:
        await connection.aclose()


class _AgentHandshake:
    """Answers `initialize` and opens the agent that it selects."""

    def __init__(self, connection: Connection, agents: dict[ProtocolVersion, Any]) -> None:
        self._connection = connection
        self._agents = agents
        self._lifecycle = AgentLifecycle()
        self._initialize = Route(decode=bytes, handler=self._handle)
        self._routes: Routes | None = None  # of the last success

    def routes_before(self) -> Routes:
        """What is served until `initialize` has succeeded: `initialize`."""

        def missing(method: str, _is_request: bool) -> RequestError:
            return self._lifecycle.too_early(method)

        return Routes(
            requests={"initialize": self._initialize},
            notifications={},
            context=lambda request_id: Context(self._connection, request_id),
            fallback=missing,
        )

    def _handle(self, text: bytes, context: Context) -> Any:
        raw = lenient_json.loads(text)
        requested = requested_version(raw)
        self._lifecycle.begin(requested)
        try:
            version = select(requested, self._agents.keys())
            if version == 2 and context.request_id is None:
                raise InvalidRequest("The id of initialize must not be null")  # R-ROUTE-03
            agent = self._agents[version]
            if type(agent) is LazyRole:
                agent = self._agents[version] = agent.make()
            remote = agent.make_remote(self._connection)
            params = _initialize_params(agent, version, requested, text, raw)
            remote.initialized = params
            outcome = agent.initialize(params, agent.make_context(context, remote))
            if not inspect.isawaitable(outcome):
                return self._complete(agent, remote, params, outcome)
        except BaseException:
            self._fail()
            raise
        if self._lifecycle.version == 2:
            self._connection.serve(self.routes_before())  # R-INIT-35
        return _PendingInitialize(
            outcome, partial(self._complete, agent, remote, params), self._fail
        )

    def _fail(self) -> None:
        self._lifecycle.fail()
        if self._routes is not None:
            self._connection.serve(self._routes)

    def _complete(self, agent: Any, remote: Remote, params: Any, result: Any) -> Any:
        version = agent.kit.version
        result = replace(result, protocol_version=version)  # never the user's to set
        capabilities = {
            "agent": agent.kit.agent_capabilities(result),
            "client": agent.kit.client_capabilities(params),
        }
        remote.settle(capabilities)

        def context(request_id: RequestId) -> Any:
            return agent.make_context(Context(self._connection, request_id), remote)

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
    """An `initialize` that is being handled; to drop it is to fail it."""

    def __init__(
        self, outcome: Awaitable[Any], settle: Callable[[Any], Any], fail: Callable[[], None]
    ) -> None:
        self._outcome = outcome
        self._settle = settle
        self._fail = fail

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._run().__await__()

    async def _run(self) -> Any:
        try:
            return self._settle(await self._outcome)
        except BaseException:
            self._fail()
            raise

    def close(self) -> None:
        discard(self._outcome)
        self._fail()


def _report_requests(routes: Routes, used: Callable[[], None]) -> None:
    """Let `used` be told of every request (R-INIT-34)."""

    def telling(handler: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def handle(params: Any, context: Any) -> Any:
            used()
            return handler(params, context)

        return handle

    find = routes.fallback

    def missing(method: str, is_request: bool) -> Route | RequestError:
        if is_request:
            used()
        return find(method, is_request)

    for route in routes.requests.values():
        route.handler = telling(route.handler)
    routes.fallback = missing


def _initialize_params(
    agent: Any, version: int, requested: int, text: bytes, raw: dict[str, Any]
) -> Any:
    meant = raw
    if version == 1:
        meant = v1_params_of(raw)
    elif requested > version:
        meant = _leniently(raw)
    try:
        if meant is raw:
            return decoder(agent.kit.initialize_request)(text)
        return convert(meant, agent.kit.initialize_request)
    except DecodeError as exc:
        data = {"path": exc.where, "reason": exc.message}
        raise InvalidParams(f"Invalid params: {exc}", data=data) from None


def _leniently(raw: dict[str, Any]) -> dict[str, Any]:
    """Read the params of a version that does not exist yet as version 2 (R-INIT-37)."""
    info = raw.get("info")
    parts = info if lenient_json.is_object(info) else {}
    named = {
        key: parts[key] if isinstance(parts.get(key), str) else "unknown"
        for key in ("name", "version")
    }
    return {**raw, "info": {**parts, **named}}


# The client's side.


@asynccontextmanager
async def connect(
    transport: TransportFactory | Transport,
    *clients: Any,
    limits: Limits | None = None,
    observers: Sequence[Observer] = (),
    initialize_timeout_s: float = 120.0,
) -> AsyncGenerator[Any, None]:
    """Connect to an agent, `initialize`, and give the agent to call; end it on leaving.

    Raise `TransportError` when the agent cannot be reached or started, `UnsupportedVersion`
    when it speaks no version of the clients', `RequestError` when it refuses, `TimeoutError`
    when it does not answer in time.
    """
    side = _ClientHandshake(transport, _by_version(clients, "client"), limits, observers)
    try:
        async with asyncio.timeout(initialize_timeout_s):
            remote = await side.open()
        yield remote
    finally:
        await side.aclose()


class _ClientHandshake:
    """Sends `initialize` and opens the client that the answer selects."""

    def __init__(
        self,
        transport: TransportFactory | Transport,
        clients: dict[ProtocolVersion, Any],
        limits: Limits | None,
        observers: Sequence[Observer],
    ) -> None:
        self._transport = transport
        self._clients = clients
        self._limits = limits
        self._observers = observers
        self._connection: Connection | None = None

    async def open(self) -> Any:
        connection = await self._start()
        newest = max(self._clients)
        try:
            answer = await self._initialize(connection, newest)
        except RequestError as exc:
            if exc.code != InvalidParams.default_code or newest == 1 or 1 not in self._clients:
                raise _refusal(exc, newest) from exc
            connection, answer = await self._fall_back(connection, exc)
            newest = answer.version
        if answer.version != newest and self._client(answer.version).has_offers():
            # The agent has read nothing of what a v2 request offers. Ask again as v1 wants it
            # (R-INIT-15): here, which v1 allows (R-INIT-39), else on a new connection.
            try:
                answer = await self._initialize(connection, answer.version)
            except (RequestError, RemoteProtocolError, TransportError):
                if isinstance(self._transport, Transport):
                    raise
                log.debug("= initialize may not be repeated; starting again")
                await connection.aclose()
                connection = await self._start()
                answer = await self._initialize(connection, answer.version)
        return answer.open()

    @tolerates("v2-refused-as-invalid")
    async def _fall_back(
        self, connection: Connection, refusal: RequestError
    ) -> tuple[Connection, _CompletedInitialize]:
        """Ask for version 1 an agent that finds the params of version 2 invalid."""
        log.debug("= the agent refuses version 2 as invalid params; asking for version 1")
        try:
            if not isinstance(self._transport, Transport):
                await connection.aclose()
                connection = await self._start()
            return connection, await self._initialize(connection, 1)
        except RequestError as exc:
            raise _refusal(exc, 1) from refusal

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.aclose()

    def _client(self, version: ProtocolVersion) -> Any:
        client = self._clients[version]
        if type(client) is LazyRole:
            client = self._clients[version] = client.make()
        return client

    async def _start(self) -> Connection:
        transport = self._transport
        if not isinstance(transport, Transport):
            made = transport()
            transport = await made if inspect.isawaitable(made) else made
        self._connection = Connection(transport, limits=self._limits)
        for observer in self._observers:
            self._connection.observe(observer)
        self._connection.hold()  # R-INIT-36
        await self._connection.start(_nothing_served(self._connection))
        return self._connection

    async def _initialize(
        self, connection: Connection, version: ProtocolVersion
    ) -> _CompletedInitialize:
        params = self._client(version).initialize_params()
        params = replace(params, protocol_version=version)  # never the user's to set

        def settle(text: bytes | Raw) -> _CompletedInitialize:
            return self._complete(connection, params, version, text)

        try:
            return await connection.call("initialize", params, settle)
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
        version = negotiated_version(raw, self._clients.keys())
        client = self._client(version)
        try:
            result = decoder(client.kit.initialize_response)(text)
        except DecodeError as exc:
            raise RemoteProtocolError(f"The result of initialize does not fit: {exc}") from None
        result = replace(result, protocol_version=version)  # a false v2 says otherwise
        offers = client.kit.client_capabilities(params) if version == asked else None
        return _CompletedInitialize(connection, client, result, offers)


def _refusal(error: RequestError, version: ProtocolVersion) -> RequestError:
    """Return the error with a hint; an agent may accept another version."""
    hint = f"refused `initialize` of version {version}; to choose another: {_OTHER_VERSION}"
    hinted = RequestError.of(error.code, f"{error.message} ({hint})", error.data)
    hinted.origin = error.origin
    return hinted


class _CompletedInitialize:
    """An `initialize` that was answered; `open` lets the held messages go."""

    def __init__(self, connection: Connection, client: Any, result: Any, offers: Any) -> None:
        self._connection = connection
        self._client = client
        self._result = result
        self._offers = offers
        self.version: ProtocolVersion = client.kit.version

    def open(self) -> Any:
        client, connection = self._client, self._connection
        capabilities = {
            "agent": client.kit.agent_capabilities(self._result),
            "client": self._offers,
        }
        remote = client.make_remote(connection, self._result)
        remote.settle(capabilities)

        def context(request_id: RequestId) -> Any:
            return client.make_context(Context(connection, request_id), remote)

        if self.version == 2:
            connection.refuse_null_ids()
        connection.serve(routes_for(client, capabilities, context))
        connection.release()
        log.debug("= protocol version %d", self.version)
        return remote


def _nothing_served(connection: Connection) -> Routes:
    def missing(method: str, _is_request: bool) -> RequestError:
        return AgentLifecycle.too_early(method)

    return Routes(
        requests={},
        notifications={},
        context=lambda request_id: Context(connection, request_id),
        fallback=missing,
    )
