"""The gateway between agents and the providers of models."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

import httpx2

from accord.remote.access import Receive, Scope, Send
from accord.remote.server import ServerOptions, Stop, run_server
from accord.remote.sockets import address_of, open_tcp
from accord_fleet.gateway.account import Account, OnLimit
from accord_fleet.gateway.forward import Forwarder, RetrySettings
from accord_fleet.gateway.http import Refusal, read_body, refuse, token_of, until_disconnect
from accord_fleet.gateway.limiter import Limiter
from accord_fleet.gateway.providers import Provider
from accord_fleet.socket_folder import socket_folder
from accord_fleet.splice import serve_relay
from accord_fleet.types.limits import Limits
from accord_fleet.types.result import Usage

log: logging.Logger = logging.getLogger("accord.fleet")

_CONNECT_S = 30.0
_READ_S = 900.0  # between two parts of a response


class GatewayAccess:
    """The access of one process of an agent: a token that is worth nothing elsewhere."""

    def __init__(self, provider: Provider, url: str, hidden: Iterable[str]) -> None:
        self.provider: Provider = provider
        self.token: str = f"accord-{secrets.token_hex(16)}"
        self.account: Account = Account(provider=provider)
        self._url = url
        self._hidden = tuple(hidden)

    @property
    def env(self) -> dict[str, str | None]:
        """Variables for the agent's process: the address of the gateway and the token.

        The variables with keys are removed.
        """
        places = {"url": f"{self._url}/{self.provider.name}", "token": self.token}
        changes: dict[str, str | None] = dict.fromkeys(self._hidden)
        for name, value in self.provider.env.items():
            for place, text in places.items():
                value = value.replace(f"{{{place}}}", text)
            changes[name] = value
        return changes

    def begin(self, limits: Limits, on_limit: OnLimit | None = None) -> None:
        """Begin an attempt: it has used nothing yet, and it may use what `limits` say.

        `on_limit` is called when it has used up its tokens or its cost. Its further requests are
        refused.
        """
        self.account = Account(provider=self.provider, limits=limits, on_limit=on_limit)

    def usage(self) -> Usage:
        """Return what the attempt has used so far; None where nothing was counted."""
        return self.account.usage()


class ModelGateway:
    """A reverse proxy on the loopback of this machine and on a Unix socket; an ASGI application.

    It alone has the keys. Agents get its address and a token, which it replaces by the key.
    """

    def __init__(
        self, providers: Sequence[Provider], keys: Mapping[str, str], forwarder: Forwarder
    ) -> None:
        self.url: str = ""
        """The address on the loopback."""
        self.socket: str = ""
        """The path of the Unix socket, for sandboxes."""
        self.keys: Mapping[str, str] = keys
        self._providers = {provider.name: provider for provider in providers}
        self._forwarder = forwarder
        self._accesses: dict[str, GatewayAccess] = {}

    @property
    def port(self) -> int:
        """The port on the loopback."""
        return int(self.url.rpartition(":")[2])

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys and the tokens of agents, to remove them from texts."""
        return (*self.keys.values(), *self._accesses)

    @contextlib.asynccontextmanager
    async def open(self, provider: str) -> AsyncGenerator[GatewayAccess]:
        """Admit one process of an agent to a provider in the block."""
        hidden = [each.key for each in self._providers.values()]
        access = GatewayAccess(self._providers[provider], self.url, hidden)
        self._accesses[access.token] = access
        try:
            yield access
        finally:
            del self._accesses[access.token]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of an agent."""
        if scope["type"] != "http":
            return  # neither the life of the server nor WebSockets
        try:
            access, path = self._admit(scope)
        except Refusal as refusal:
            await refuse(send, refusal, "openai")
            return
        api = access.provider.api
        try:
            if (reached := access.account.reached()) is not None:
                raise Refusal(403, f"{reached[1]}: the fleet sends no more requests", "limit")
            body = await read_body(receive)
            answer = self._forwarder.forward(
                access.account,
                self.keys[access.provider.name],
                access.token,
                (scope["method"], path, scope["query_string"], scope["headers"]),
                body,
                send,
            )
            await until_disconnect(answer, receive)
        except Refusal as refusal:
            await refuse(send, refusal, api)

    async def drain(self, timeout_s: float) -> None:
        """Do nothing: the agents have ended before the gateway."""

    async def disconnect(self, timeout_s: float) -> None:
        """Do nothing: the server closes its connections."""

    def _admit(self, scope: Scope) -> tuple[GatewayAccess, str]:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        name, _, path = raw.decode("latin-1").lstrip("/").partition("/")
        token = token_of(scope)
        access = self._accesses.get(token) if token else None
        if access is None or not hmac.compare_digest(access.token, token):
            raise Refusal(401, "Expected a token of this fleet's model gateway", "authentication")
        if name != access.provider.name:
            raise Refusal(403, f"The token is for {access.provider.name}, not for {name}", "token")
        if ".." in path.replace("%2e", ".").replace("%2E", ".").split("/"):
            raise Refusal(400, "Expected a path without `..`", "path")
        return access, f"/{path}"


@contextlib.asynccontextmanager
async def open_gateway(
    providers: Sequence[Provider],
    limiter: Limiter,
    *,
    environ: Mapping[str, str] = os.environ,
    retry: RetrySettings | None = None,
) -> AsyncGenerator[ModelGateway]:
    """Serve the gateway in the block; raise `ProviderError` if a key is missing."""
    keys = {provider.name: provider.key_value(environ) for provider in providers}
    stop, listening = Stop(), asyncio.Event()
    timeout = httpx2.Timeout(_READ_S, connect=_CONNECT_S, pool=None)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=timeout, limits=limits))
        forwarder = Forwarder(client, limiter, retry or RetrySettings())
        gateway = ModelGateway(providers, keys, forwarder)
        tcp = open_tcp("127.0.0.1", 0)
        host, port = address_of(tcp)
        gateway.url = f"http://{host}:{port}"
        options = ServerOptions(passed=[tcp], drain_s=0.0)
        async with asyncio.TaskGroup() as group:
            group.create_task(
                run_server(gateway, options, lambda _: listening.set(), stop)
            ).add_done_callback(lambda _: listening.set())
            await listening.wait()
            try:
                if sys.platform != "win32":
                    # A relay, because the server of a Unix socket does not run in Ray's event loop.
                    path = stack.enter_context(socket_folder()) / "gateway.sock"
                    gateway.socket = str(path)
                    await stack.enter_async_context(serve_relay(path, host, gateway.port))
                yield gateway
            finally:
                stop.requested.set()
