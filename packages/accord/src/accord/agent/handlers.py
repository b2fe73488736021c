"""Handlers of the client's requests that both versions serve alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from accord.agent.client_adapter import accounts_to_wire
from accord.agent.hooks import (
    AuthenticationMixin,
    ProvidersMixin,
    disable_known_provider,
    set_validated_provider,
    validated_login,
)
from accord.agent.session_core import SessionCore
from accord.agent.session_manager import SessionManager, SessionSetup
from accord.connection.tasks import run_at_once
from accord.errors import DecodeError, InvalidParams
from accord.types.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse, McpServerStdio
from accord.types.session import SystemPrompt
from accord.types.steering import requires_prompt, result
from accord.wire.codec import convert

if TYPE_CHECKING:
    from accord.agent.client_adapter import VersionTypes
    from accord.connection.routes import Context
    from accord.types.content import ContentBlock

# The system prompt of a client, for agents that accept one (unstable).


def system_prompt_from(found: Any, text_type: type[Any], modes: frozenset[str]) -> SystemPrompt:
    """Return a client's system prompt; raise `InvalidParams` for an invalid one (R-SYSP-03)."""
    if found.mode != "append" and found.mode not in modes:
        raise InvalidParams("Unknown mode of a system prompt", data={"mode": found.mode})
    if not found.content or not all(isinstance(block, text_type) for block in found.content):
        raise InvalidParams("A system prompt consists of text")  # R-SYSP-05
    return SystemPrompt(tuple(block.text for block in found.content), found.mode)


ManagerT = TypeVar("ManagerT", bound=SessionManager)


class SharedHandlers:
    """Serves the requests of one client with a session manager.

    A method has the name of the call that it serves. `types` is the package of the version.
    """

    def __init__(self, manager: SessionManager, types: VersionTypes) -> None:
        self.manager = manager
        self._types = types

    def session_fields(self, core: SessionCore) -> dict[str, Any]:
        """Return what a response says about a session that it opens."""
        raise NotImplementedError

    def setup_from(self, params: Any) -> SessionSetup:
        """Return what a client requests for a session."""
        prompt = None
        if params.system_prompt is not None:  # refused before, unless advertised
            modes = self.manager.agent.system_prompt
            prompt = system_prompt_from(params.system_prompt, self._types.TextContent, modes)
        return SessionSetup(
            cwd=params.cwd,
            system_prompt=prompt,
            additional_directories=params.additional_directories,
            mcp_servers=self._mcp_servers(params.mcp_servers),
        )

    def _mcp_servers(self, servers: Sequence[Any]) -> list[McpServer]:
        types = self._types
        sse: type[Any] | None = getattr(types, "McpServerSse", None)  # only version 1 has it
        found: list[McpServer] = []
        for server in servers:
            if isinstance(server, types.McpServerStdio):
                env = _pairs(server.env)
                found.append(McpServerStdio(server.name, server.command, tuple(server.args), env))
            elif isinstance(server, types.McpServerHttp):
                found.append(McpServerHttp(server.name, server.url, _pairs(server.headers)))
            elif isinstance(server, types.McpServerAcp):
                found.append(McpServerAcp(server.name, server.server_id))
            elif sse is not None and isinstance(server, sse):
                found.append(McpServerSse(server.name, server.url, _pairs(server.headers)))
            else:
                raise InvalidParams("Unknown MCP transport")  # refused before, unless advertised
            if any(other.name == server.name for other in found[:-1]):  # R-MCP-15
                raise InvalidParams("Two MCP servers have one name", data={"name": server.name})
        return found

    def new_session(self, params: Any, context: Context) -> Any:
        work = self._new_session(params)
        return run_at_once(work) if self.manager.opens_at_once else work

    async def _new_session(self, params: Any) -> Any:
        core = await self.manager.new_session(self.setup_from(params))
        return self._types.NewSessionResponse(session_id=core.id, **self.session_fields(core))

    # Turns.

    def content_from(self, request: Any) -> tuple[ContentBlock, ...]:
        """Return the content of a prompt."""
        raise NotImplementedError

    async def start_detached(self, request: Any, context: Any) -> None:
        """Start a turn that no request waits for."""
        raise NotImplementedError

    async def steer(self, params: Any, context: Context) -> dict[str, Any]:
        """Give the running turn a message of the user: the extension `_session/steering`."""
        try:
            request = convert(params, self._types.PromptRequest)
        except DecodeError as exc:
            raise InvalidParams(f"Expected the params of a prompt: {exc}") from None
        content = self.content_from(request)
        if (deliver := await self.manager.steer(request.session_id, content)) is not None:
            context.start(deliver())
            return result("injected")
        if requires_prompt(request.meta):
            return result("promptRequired")
        await self.start_detached(request, context)
        return result("startedNewTurn")

    def notify_mcp(self, params: Any, context: Context) -> None:
        """Pass on a notification of an MCP server, before any later message is handled."""
        self.manager.mcp.receive(params)

    # Stored sessions.

    async def fork_session(self, params: Any, context: Context) -> Any:
        core = await self.manager.fork(params.session_id, self.setup_from(params))
        fields = self.session_fields(core)
        return self._types.ForkSessionResponse(session_id=core.id, **fields)

    async def list_sessions(self, params: Any, context: Context) -> Any:
        page = await self.manager.list(
            cwd=params.cwd, archived=params.archived, cursor=params.cursor
        )
        sessions = [
            self._types.SessionInfo(
                session_id=stored.id,
                cwd=stored.cwd,
                additional_directories=list(stored.additional_directories),
                title=stored.title,
                updated_at=stored.updated_at,
                # An agent that advertises archives reports it for every session (R-ARCH-11).
                archived=stored.archived,
            )
            for stored in page.sessions
        ]
        return self._types.ListSessionsResponse(sessions=sessions, next_cursor=page.next_cursor)

    async def set_session_title(self, params: Any, context: Context) -> Any:
        title = await self.manager.set_title(params.session_id, params.title)
        return self._types.SetSessionTitleResponse(title=title)

    async def archive_session(self, params: Any, context: Context) -> Any:
        await self.manager.archive(params.session_id, archived=True)
        return self._types.ArchiveSessionResponse()

    async def unarchive_session(self, params: Any, context: Context) -> Any:
        await self.manager.archive(params.session_id, archived=False)
        return self._types.UnarchiveSessionResponse()

    async def delete_session(self, params: Any, context: Context) -> Any:
        await self.manager.delete(params.session_id)
        return self._types.DeleteSessionResponse()

    # Authentication.

    @property
    def _auth(self) -> AuthenticationMixin:
        agent: object = self.manager.agent
        assert isinstance(agent, AuthenticationMixin), "served only by such an agent"
        return agent

    async def log_in(self, method_id: str, context: Context) -> None:
        """Log in and send the auth status; raise `InvalidParams` for an unknown method."""
        await validated_login(self._auth, method_id)
        context.start(self._auth.notify_auth_status())

    async def log_out(self, context: Context) -> None:
        """Log out and send the auth status."""
        await self._auth.logout()
        context.start(self._auth.notify_auth_status())

    async def auth_status(self, params: Any, context: Context) -> Any:
        state, accounts = await self._auth.auth_status()
        self.manager.last_auth_status = state, tuple(accounts)
        return self._types.AuthStatusResponse(
            state=state, accounts=accounts_to_wire(self._types, accounts)
        )

    # Providers.

    @property
    def _providers(self) -> ProvidersMixin:
        agent: object = self.manager.agent
        assert isinstance(agent, ProvidersMixin), "served only by such an agent"
        return agent

    async def list_providers(self, params: Any, context: Context) -> Any:
        types = self._types
        providers = [
            types.ProviderInfo(
                provider_id=provider.id,
                supported=list(provider.supported),
                required=provider.required,
                current=None
                if provider.base_url is None or provider.api_type is None
                else types.ProviderCurrentConfig(
                    api_type=provider.api_type, base_url=provider.base_url
                ),
            )
            for provider in await self._providers.list_providers()
        ]
        return types.ListProvidersResponse(providers=providers)

    async def set_provider(self, params: Any, context: Context) -> Any:
        await set_validated_provider(
            self._providers, params.provider_id, params.api_type, params.base_url, params.headers
        )
        return self._types.SetProviderResponse()

    async def disable_provider(self, params: Any, context: Context) -> Any:
        await disable_known_provider(self._providers, params.provider_id)
        return self._types.DisableProviderResponse()


def _pairs(entries: Sequence[Any]) -> dict[str, str]:
    return {entry.name: entry.value for entry in entries}
