"""The tools that a client provides to the sessions of its agent."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from accord.client.agent_adapter import AgentAdapter, OpenedSession, SessionSetup
from accord.errors import LocalProtocolError, McpServerUnavailable
from accord.text.excerpt import excerpt

if TYPE_CHECKING:
    from accord.mcp.provider import McpProvider
    from accord.mcp.session_tools import SessionTools


log: logging.Logger = logging.getLogger("accord.client")


class SessionOpening:
    """A session that is being opened: its setup, and what the agent has responded."""

    def __init__(self, setup: SessionSetup) -> None:
        self.setup = setup
        self.session: OpenedSession | None = None


class ClientTools:
    """The tools of the sessions of one connection, and those that are served over it."""

    def __init__(self) -> None:
        self.agent_url: str | None = None
        """The URL of a remote agent."""
        self._provider: McpProvider | None = None
        self._by_session: dict[str, SessionTools] = {}
        self._has_old_dialect = False

    @asynccontextmanager
    async def serve(
        self, setup: SessionSetup, tools: Iterable[object], adapter: AgentAdapter
    ) -> AsyncGenerator[SessionOpening, None]:
        """Serve tools from before their session is opened, which happens in the block (R-MOA-08).

        Tools that the session had before are stopped. Raises `LocalProtocolError` if the agent
        cannot use the tools.
        """
        opening, served, given = SessionOpening(setup), None, _given(tools)
        try:
            if given:
                taken = [server.name for server in setup.mcp_servers]
                served = await self._serve(given, adapter.mcp_transports, taken)
                servers = (*setup.mcp_servers, *served.declarations)
                opening.setup = replace(setup, mcp_servers=servers)
            yield opening
        except BaseException:
            if served is not None:
                await served.aclose()
            raise
        if opening.session is not None:
            await self._keep(opening.session.session_id, served)

    async def _serve(
        self, tools: Iterable[object], transports: Collection[str], taken: Iterable[str]
    ) -> SessionTools:
        from accord.mcp.provide import provide_tools
        from accord.mcp.provider import McpProvider
        from accord.transports.registry import is_loopback

        if self._provider is None:
            self._provider = McpProvider()
        usable = set(transports)
        if self._has_old_dialect and len(usable) > 1:
            usable.discard("acp")  # R-MOA-16
        host = None if self.agent_url is None else urlsplit(self.agent_url).hostname
        if host is not None and not is_loopback(host):  # it cannot connect to this machine
            if "acp" not in usable:
                raise LocalProtocolError(
                    f"tools=[…]: the agent on {host} does not support MCP over ACP"
                )
            usable = {"acp"}
        return await provide_tools(tools, self._provider, usable, taken)

    async def close(self, session_id: str) -> None:
        """Stop the tools of a session."""
        await self._keep(session_id, None)

    async def _keep(self, session_id: str, tools: SessionTools | None) -> None:
        previous = self._by_session.pop(session_id, None)
        if tools is not None:
            self._by_session[session_id] = tools
        if previous is not None:
            await previous.aclose()

    async def request(self, params: Any, notify: Callable[[Any], Awaitable[None]]) -> Any:
        """Serve `mcp/message`; `McpProvider.request` documents the errors."""
        if self._provider is None:
            raise McpServerUnavailable(data={"serverId": params.server_id})
        return await self._provider.request(params, notify)

    def unknown_method(self, method: str) -> None:
        """Note that the agent uses an older draft, which is logged once (R-MOA-16)."""
        is_old = method.startswith("_mcp/") or method in ("mcp/connect", "mcp/disconnect")
        if is_old and not self._has_old_dialect:
            self._has_old_dialect = True
            log.warning(
                "! %s was refused: the agent uses an older draft of MCP over ACP; sessions that "
                "are opened from now on provide their tools in another way",
                method[:60],
            )

    async def aclose(self) -> None:
        """Stop serving the tools of all sessions."""
        for session_id in list(self._by_session):
            await self.close(session_id)


def _given(tools: object) -> tuple[object, ...]:
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise TypeError(
            "tools=…: expected a list of functions, objects with methods marked by accord.tool, or"
            f" MCP servers, got {excerpt(repr(cast(object, tools)), 80)}"
        )
    return tuple(cast("Iterable[object]", tools))
