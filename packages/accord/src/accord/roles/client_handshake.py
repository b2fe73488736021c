"""The client's side of `initialize`: agrees on a version and opens the role that serves it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from accord.connection.connection import Connection, Observer
from accord.connection.limits import Limits
from accord.connection.routes import Context, Routes
from accord.errors import (
    DecodeError,
    InvalidParams,
    RemoteProtocolError,
    RequestError,
    StartError,
    TransportError,
    UnsupportedVersion,
)
from accord.jsonrpc.message import RequestId
from accord.roles.binding import routes_for
from accord.roles.lazy_role import RolesByVersion
from accord.rules.lifecycle import AgentLifecycle
from accord.rules.negotiation import negotiated_version
from accord.rules.quirks import QUIRKS, tolerates
from accord.text import lenient_json
from accord.transports.base import Transport, TransportFactory, opened
from accord.version import ProtocolVersion
from accord.wire.base import replace
from accord.wire.codec import decoder

log: logging.Logger = logging.getLogger("accord.roles.handshake")

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
