"""The tools of a proxy: its marked methods, as an MCP server of each session (R-PROXY-06)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from msgspec import UNSET

from accord.connection.tasks import cancel
from accord.errors import DecodeError, InternalError, RequestCancelled, RequestError
from accord.mcp.provide import provide_tools
from accord.mcp.provider import McpProvider
from accord.mcp.tool import marked_tools
from accord.proxy.overrides import raw_of
from accord.proxy.proxy_stage import ProxyStage
from accord.proxy.stage import RawRequest, RawResponse
from accord.proxy.versions import ProxiedVersion
from accord.types.mcp import McpServer
from accord.wire.codec import decoder
from accord.wire.shared import MessageMcpNotification, MessageMcpRequest

log: logging.Logger = logging.getLogger("accord.proxy")

_decode = decoder(MessageMcpRequest)


class ProxyTools:
    """Serves the marked methods of a proxy to the sessions of one chain.

    An agent that does not support MCP over ACP gets them over HTTP or stdio; one that supports
    none of them gets no tools.
    """

    def __init__(
        self, proxy: object, version: ProxiedVersion, stage: ProxyStage, initialized: Any
    ) -> None:
        self._methods = marked_tools(proxy)
        self._stage = stage
        agent = cast("Any", SimpleNamespace(initialized=initialized))
        self._transports = version.adapter.on(agent).mcp_transports
        self._provider = McpProvider()
        self._by_session: dict[str, Any] = {}
        if self._methods and not self._transports:
            self._methods = []
            log.warning(
                "! %s: the agent does not get the tools of this proxy: expected that it supports"
                " one of the transports acp, http and stdio of MCP",
                stage.name,
            )
        if self._methods:
            stage.on_mcp_request = self._serve
            stage.on_close.append(self.aclose)

    def __bool__(self) -> bool:
        return bool(self._methods)

    async def open(self, taken: Sequence[str]) -> Any:
        """Serve the tools to a session before it is opened (R-MOA-08)."""
        try:
            return await provide_tools(self._methods, self._provider, self._transports, taken)
        except RequestError:
            raise
        except Exception as exc:
            log.error("! %s: its tools cannot be served: %s", self._stage.name, exc)
            raise InternalError(f"The tools of the proxy {self._stage.name}: {exc}") from exc

    @staticmethod
    def declarations(served: Any) -> Sequence[McpServer]:
        """Return the entries for `mcpServers`."""
        return served.declarations

    async def keep(self, session_id: str, served: Any) -> None:
        """Keep the tools of a session; None stops them."""
        previous = self._by_session.pop(session_id, None)
        if served is not None:
            self._by_session[session_id] = served
        if previous is not None:
            await previous.aclose()

    async def aclose(self) -> None:
        """Stop all tools."""
        for session_id in list(self._by_session):
            await self.keep(session_id, None)

    # Requests of the agent. They do not wait in lanes: a tool can take long.

    def _serve(self, request: RawRequest) -> bool:
        """Serve a request for a server of this proxy; return whether it is one."""
        try:
            message: MessageMcpRequest = _decode(
                b"null" if request.params is UNSET else request.params
            )
        except DecodeError:
            return False
        if message.server_id not in self._provider:
            return False
        task = self._stage.spawn(self._answer(request, message), "accord proxy tool")
        request.on_cancel(lambda: cancel(task))
        return True

    async def _answer(self, request: RawRequest, message: MessageMcpRequest) -> None:
        async def notify(note: MessageMcpNotification) -> None:
            self._stage.agent.notify("mcp/message", raw_of(note))
            await self._stage.agent.wait_for_room()

        try:
            outcome = await self._provider.request(message, notify)
        except asyncio.CancelledError:
            request.fail(RequestCancelled())
            raise
        except RequestError as exc:
            request.fail(exc)
        else:
            request.answer(RawResponse(result=raw_of(outcome)))
