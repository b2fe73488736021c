"""Serves agents in version 1: the prompt's answer ends the turn, modes stand beside options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from accord import v1
from accord.agent.session_manager import SessionManager, SessionSetup
from accord.errors import InvalidParams, InvalidRequest, RequestError
from accord.wire.base import replace

if TYPE_CHECKING:
    from accord.agent.agent import Agent
    from accord.agent.session import Session
    from accord.agent.v1.client_adapter import ClientAdapterV1
    from accord.types.mcp import McpServer
    from accord.types.session import TokenUsage

# Editors start agents all the time: what `initialize` does without is imported later.

__all__ = ("AgentRoleV1", "StoreRoleV1", "role_for")


class AgentRoleV1(v1.AgentRole):
    """Serves version 1 for a host."""

    def __init__(self, host: SessionManager) -> None:
        self.manager = host

    @property
    def _client_adapter(self) -> ClientAdapterV1:
        from accord.agent.v1.client_adapter import ClientAdapterV1

        link = self.manager.client_adapter
        assert isinstance(link, ClientAdapterV1), "set by initialize"
        return link

    def initialize(
        self, params: v1.InitializeRequest, context: v1.AgentContext
    ) -> v1.InitializeResponse:
        agent = self.manager.agent

        def link() -> ClientAdapterV1:
            from accord.agent.v1.client_adapter import ClientAdapterV1

            return ClientAdapterV1(params, context, unstable=agent.unstable)

        self.manager.set_client_adapter(link)
        return v1.InitializeResponse(
            protocol_version=1,
            agent_info=v1.Implementation(
                name=agent.info.name, version=agent.info.version, title=agent.info.title
            )
            if agent.info is not None
            else v1.Implementation(name=type(agent).__name__, version="0"),
            agent_capabilities=self.capabilities(),
            auth_methods=list(self.auth_methods),
        )

    def capabilities(self) -> v1.AgentCapabilities:
        agent = self.manager.agent
        derived = self._derived_capabilities()
        derived = replace(
            derived,
            prompt_capabilities=v1.PromptCapabilities(
                image="image" in agent.prompt_capabilities,
                audio="audio" in agent.prompt_capabilities,
                embedded_context="resource" in agent.prompt_capabilities,
            ),
            mcp_capabilities=v1.McpCapabilities(
                http="http" in agent.mcp_transports, sse="sse" in agent.mcp_transports
            ),
            session_capabilities=replace(
                derived.session_capabilities,
                system_prompt=self._system_prompt(),
                additional_directories=v1.SessionAdditionalDirectoriesCapabilities(),
            ),
        )
        return agent.capabilities_v1(derived)

    def _system_prompt(self) -> v1.SessionSystemPromptCapabilities | None:
        agent = self.manager.agent
        if not agent.unstable or not agent.system_prompt:
            return None
        if "override" not in agent.system_prompt:
            return v1.SessionSystemPromptCapabilities()
        override = v1.SessionSystemPromptOverrideCapabilities()
        return v1.SessionSystemPromptCapabilities(
            mode=v1.SessionSystemPromptModeCapabilities(override=override)
        )

    def _derived_capabilities(self) -> v1.AgentCapabilities:
        if type(self) is not AgentRoleV1:
            offered = v1.AgentRole.capabilities(self)
            if self.manager.agent.unstable:
                return offered
            stable = replace(
                offered.session_capabilities, fork=None, archive=None, status=None, title=None
            )
            return replace(offered, session_capabilities=stable)
        # What the methods of this class stand for; to derive that takes milliseconds.
        return v1.AgentCapabilities(
            session_capabilities=v1.SessionCapabilities(close=v1.SessionCloseCapabilities())
        )

    async def new_session(
        self, params: v1.NewSessionRequest, context: v1.AgentContext
    ) -> v1.NewSessionResponse:
        session = await self.manager.new_session(_setup(params, self.manager.agent))
        self.manager.send_commands(session)
        return v1.NewSessionResponse(session_id=session.id, **self._session_fields(session))

    def _session_fields(self, session: Session) -> dict[str, Any]:
        from accord.agent.v1.client_adapter import modes_to_wire

        if not session.options:
            return {}
        return {
            "modes": modes_to_wire(session.options),
            "config_options": self._client_adapter.options_to_wire(session.options),
        }

    async def close_session(
        self, params: v1.CloseSessionRequest, context: v1.AgentContext
    ) -> v1.CloseSessionResponse:
        await self.manager.close(params.session_id)
        return v1.CloseSessionResponse()

    async def prompt(self, params: v1.PromptRequest, context: v1.AgentContext) -> v1.PromptResponse:
        from accord.types.convert_v1 import content_from_wire

        content = tuple(content_from_wire(block) for block in params.prompt)
        course = self.manager.start_turn(params.session_id, content, params.meta)
        if course.session.turn_queue:
            raise InvalidRequest("A turn is running in this session")
        course.enqueue()
        try:
            await course.store_prompt()
            ended = await course.run(self.manager.agent)
            await self._client_adapter.flush_tool_content(params.session_id)
        finally:
            course.session.set_idle()
            course.dequeue()
        if course.exit_error is not None:
            context.start(_raise(course.exit_error))  # once this is answered
        if ended.failure is not None:
            failure = ended.failure
            raise RequestError.of(
                failure.code,
                failure.message,
                None if failure.data is UNSET else failure.data,
            )
        return v1.PromptResponse(
            stop_reason=self._client_adapter.stop_reason(ended.stop_reason),
            usage=None if ended.tokens is None else _tokens(ended.tokens),
            meta=course.turn.end_meta,
        )

    async def extension_request(self, method: str, params: Any, context: Any) -> Any:
        return await self.manager.agent.extension_request(method, params, self.manager.client)

    async def extension_notification(self, method: str, params: Any, context: Any) -> None:
        await self.manager.agent.extension_notification(method, params, self.manager.client)

    def cancel(self, params: v1.CancelNotification, context: v1.AgentContext) -> None:
        if (child := self.manager.subagents.get(params.session_id)) is not None:
            child.cancel()
            return
        session = self.manager.sessions.get(params.session_id)
        course = session.turn_queue[0] if session is not None and session.turn_queue else None
        if session is not None:
            session.background_work.cancel()  # nothing else could stop it in this version
        if course is None:
            context.cancel_prompts(params.session_id)
        else:
            course.turn.cancel()

    async def set_session_mode(
        self, params: v1.SetSessionModeRequest, context: v1.AgentContext
    ) -> v1.SetSessionModeResponse:
        from accord.agent.client_adapter import mode_of
        from accord.agent.updates import OptionsUpdate

        session = self.manager.session(params.session_id)
        mode = mode_of(session.options)
        if mode is None:
            raise InvalidParams("The session has no modes")
        await self.manager.set_option(session, mode.id, params.mode_id)
        # Who sets the mode is told of the option, and the other way round (R-MODE-05).
        await self._client_adapter.send_update(session.id, OptionsUpdate(session.options))
        return v1.SetSessionModeResponse()

    async def set_session_config_option(
        self, params: v1.SetSessionConfigOptionRequest, context: v1.AgentContext
    ) -> v1.SetSessionConfigOptionResponse:
        session = self.manager.session(params.session_id)
        mode_was = session.mode
        await self.manager.set_option(session, params.config_id, params.value)
        if (mode := session.mode) is not None and mode != mode_was:
            await self._client_adapter.send_mode(session.id, mode)
        return v1.SetSessionConfigOptionResponse(
            config_options=self._client_adapter.options_to_wire(session.options)
        )


async def _raise(error: BaseException) -> None:
    raise error


def _tokens(tokens: TokenUsage) -> v1.Usage:
    return v1.Usage(
        total_tokens=tokens.total,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thought_tokens=tokens.thought,
        cached_read_tokens=tokens.cached_read,
        cached_write_tokens=tokens.cached_write,
    )


def _mcp_servers(servers: Sequence[v1.McpServer]) -> list[McpServer]:
    from accord.types.mcp import McpServerHttp, McpServerSse, McpServerStdio

    found: list[McpServer] = []
    for server in servers:
        match server:
            case v1.McpServerStdio():
                env = _pairs(server.env)
                found.append(McpServerStdio(server.name, server.command, tuple(server.args), env))
            case v1.McpServerHttp():
                found.append(McpServerHttp(server.name, server.url, _pairs(server.headers)))
            case v1.McpServerSse():
                found.append(McpServerSse(server.name, server.url, _pairs(server.headers)))
            case _:
                raise InvalidParams("Unknown MCP transport")  # refused before, unless offered
        if any(other.name == server.name for other in found[:-1]):  # R-MCP-15
            raise InvalidParams("Two MCP servers have one name", data={"name": server.name})
    return found


def _pairs(entries: Sequence[Any]) -> dict[str, str]:
    return {entry.name: entry.value for entry in entries}


def _setup(params: Any, agent: Agent) -> SessionSetup:
    prompt = None
    if params.system_prompt is not None:  # refused before, unless offered
        from accord.agent.system_prompt import system_prompt_from

        prompt = system_prompt_from(params.system_prompt, v1.TextContent, agent.system_prompt)
    return SessionSetup(
        cwd=params.cwd,
        system_prompt=prompt,
        additional_directories=params.additional_directories,
        mcp_servers=_mcp_servers(params.mcp_servers),
    )


class StoreRoleV1(AgentRoleV1):
    """Serves what a store makes possible."""

    async def load_session(
        self, params: v1.LoadSessionRequest, context: v1.AgentContext
    ) -> v1.LoadSessionResponse:
        session = await self.manager.resume(
            params.session_id, _setup(params, self.manager.agent), replay=True
        )
        self.manager.send_commands(session)
        return v1.LoadSessionResponse(**self._session_fields(session))

    async def resume_session(
        self, params: v1.ResumeSessionRequest, context: v1.AgentContext
    ) -> v1.ResumeSessionResponse:
        session = await self.manager.resume(
            params.session_id, _setup(params, self.manager.agent), replay=False
        )
        self.manager.send_commands(session)
        return v1.ResumeSessionResponse(**self._session_fields(session))

    async def fork_session(
        self, params: v1.ForkSessionRequest, context: v1.AgentContext
    ) -> v1.ForkSessionResponse:
        session = await self.manager.fork(params.session_id, _setup(params, self.manager.agent))
        self.manager.send_commands(session)
        return v1.ForkSessionResponse(session_id=session.id, **self._session_fields(session))

    async def list_sessions(
        self, params: v1.ListSessionsRequest, context: v1.AgentContext
    ) -> v1.ListSessionsResponse:
        page = await self.manager.list(
            cwd=params.cwd, archived=params.archived, cursor=params.cursor
        )
        found = [
            v1.SessionInfo(
                session_id=stored.id,
                cwd=stored.cwd,
                additional_directories=list(stored.additional_directories),
                title=stored.title,
                updated_at=stored.updated_at,
                # An agent that advertises archives says so of every session (R-ARCH-11).
                archived=stored.archived,
            )
            for stored in page.sessions
        ]
        return v1.ListSessionsResponse(sessions=found, next_cursor=page.next_cursor)

    async def session_status(
        self, params: v1.SessionStatusRequest, context: v1.AgentContext
    ) -> v1.SessionStatusResponse:
        return v1.SessionStatusResponse(status=await self.manager.status(params.session_id))

    async def set_session_title(
        self, params: v1.SetSessionTitleRequest, context: v1.AgentContext
    ) -> v1.SetSessionTitleResponse:
        title = await self.manager.set_title(params.session_id, params.title)
        return v1.SetSessionTitleResponse(title=title)

    async def archive_session(
        self, params: v1.ArchiveSessionRequest, context: v1.AgentContext
    ) -> v1.ArchiveSessionResponse:
        await self.manager.archive(params.session_id, archived=True)
        return v1.ArchiveSessionResponse()

    async def unarchive_session(
        self, params: v1.UnarchiveSessionRequest, context: v1.AgentContext
    ) -> v1.UnarchiveSessionResponse:
        await self.manager.archive(params.session_id, archived=False)
        return v1.UnarchiveSessionResponse()

    async def delete_session(
        self, params: v1.DeleteSessionRequest, context: v1.AgentContext
    ) -> v1.DeleteSessionResponse:
        await self.manager.delete(params.session_id)
        return v1.DeleteSessionResponse()


def role_for(host: SessionManager, *extra: type[AgentRoleV1]) -> v1.AgentRole:
    """Return what serves version 1 for a host, with what its agent has besides sessions."""
    kinds = extra if host.agent.store is None else (*extra, StoreRoleV1)
    return type("Role", kinds, {})(host) if kinds else AgentRoleV1(host)
