"""The agent's side of `initialize`: chooses a version and opens the role that serves it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

from accord.connection.connection import Connection
from accord.connection.routes import Context, Route, Routes
from accord.connection.tasks import discard
from accord.errors import InvalidRequest, RequestError
from accord.jsonrpc.message import RequestId
from accord.roles.binding import routes_for
from accord.roles.initialize import decode_params
from accord.roles.lazy_role import RolesByVersion
from accord.roles.remote import Remote
from accord.rules.lifecycle import AgentLifecycle
from accord.rules.negotiation import requested_version, select
from accord.text import lenient_json
from accord.wire.base import replace

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
