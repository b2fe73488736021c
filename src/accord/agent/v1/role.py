"""Serves agents in version 1: the prompt's answer ends the turn, modes stand beside options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from accord import v1
from accord.agent.session_manager import Host, Setup
from accord.errors import InvalidParams, InvalidRequest, RequestError
from accord.wire.base import replace

if TYPE_CHECKING:
    from accord.agent.agent import Agent
    from accord.agent.session import Session
    from accord.agent.v1.client_adapter import LinkV1
    from accord.types.mcp import McpServer
    from accord.types.session import Tokens

# Editors start agents all the time: what `initialize` does without is imported later.

__all__ = ("AgentRole", "role_for")


class AgentRole(v1.Agent):
    """Serves version 1 for a host."""

    def __init__(self, host: Host) -> None:
        self.host = host

    @property
    def _link(self) -> LinkV1:
        from accord.agent.v1.client_adapter import LinkV1

        link = self.host.link
        assert isinstance(link, LinkV1), "set by initialize"
        return link

    def initialize(
        self, params: v1.InitializeRequest, context: v1.AgentContext
    ) -> v1.InitializeResponse:
        agent = self.host.agent

        def link() -> LinkV1:
            from accord.agent.v1.client_adapter import LinkV1

            return LinkV1(params, context, unstable=agent.unstable)

        self.host.settle(link)
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
        agent = self.host.agent
        derived = self._derived()
        derived = replace(
            derived,
            prompt_capabilities=v1.PromptCapabilities(
                image="image" in agent.prompt_content,
                audio="audio" in agent.prompt_content,
                embedded_context="resource" in agent.prompt_content,
            ),
            mcp_capabilities=v1.McpCapabilities(http="http" in agent.mcp, sse="sse" in agent.mcp),
            session_capabilities=replace(
                derived.session_capabilities,
                system_prompt=self._system_prompt(),
                additional_directories=v1.SessionAdditionalDirectoriesCapabilities(),
            ),
        )
        return agent.capabilities_v1(derived)

    def _system_prompt(self) -> v1.SessionSystemPromptCapabilities | None:
        agent = self.host.agent
        if not agent.unstable or not agent.system_prompt:
            return None
        if "override" not in agent.system_prompt:
            return v1.SessionSystemPromptCapabilities()
        override = v1.SessionSystemPromptOverrideCapabilities()
        return v1.SessionSystemPromptCapabilities(
            mode=v1.SessionSystemPromptModeCapabilities(override=override)
        )

    def _derived(self) -> v1.AgentCapabilities:
        if type(self) is not AgentRole:
            offered = v1.Agent.capabilities(self)
            if self.host.agent.unstable:
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
        session = await self.host.new_session(_setup(params, self.host.agent))
        self.host.tell_commands(session)
        return v1.NewSessionResponse(session_id=session.id, **self._offers(session))

    def _offers(self, session: Session) -> dict[str, Any]:
        from accord.agent.v1.client_adapter import modes_of

        if not session.options:
            return {}
        return {
            "modes": modes_of(session.options),
            "config_options": self._link.options(session.options),
        }

    async def close_session(
        self, params: v1.CloseSessionRequest, context: v1.AgentContext
    ) -> v1.CloseSessionResponse:
        await self.host.close(params.session_id)
        return v1.CloseSessionResponse()

    async def prompt(self, params: v1.PromptRequest, context: v1.AgentContext) -> v1.PromptResponse:
        from accord.types.convert_v1 import content_from_wire

        content = tuple(content_from_wire(block) for block in params.prompt)
        course = self.host.begin(params.session_id, content, params.meta)
        if course.session.turns:
            raise InvalidRequest("A turn is running in this session")
        course.queue()
        try:
            await course.insert()
            ended = await course.work(self.host.agent)
            await self._link.catch_up(params.session_id)
        finally:
            course.session.idle()
            course.leave()
        if course.exit is not None:
            context.start(_raise(course.exit))  # once this is answered
        if ended.failure is not None:
            failure = ended.failure
            raise RequestError.of(
                failure.code,
                failure.message,
                None if failure.data is UNSET else failure.data,
            )
        return v1.PromptResponse(
            stop_reason=self._link.stop_reason(ended.stop_reason),
            usage=None if ended.tokens is None else _tokens(ended.tokens),
            meta=course.turn.end_meta,
        )

    async def extension_request(self, method: str, params: Any, context: Any) -> Any:
        return await self.host.agent.extension_request(method, params, self.host.client)

    async def extension_notification(self, method: str, params: Any, context: Any) -> None:
        await self.host.agent.extension_notification(method, params, self.host.client)

    def cancel(self, params: v1.CancelNotification, context: v1.AgentContext) -> None:
        if (child := self.host.children.get(params.session_id)) is not None:
            child.cancel()
            return
        session = self.host.sessions.get(params.session_id)
        course = session.turns[0] if session is not None and session.turns else None
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
        from accord.agent.updates import OptionsReport

        session = self.host.session(params.session_id)
        mode = mode_of(session.options)
        if mode is None:
            raise InvalidParams("The session has no modes")
        await self.host.set_option(session, mode.id, params.mode_id)
        # Who sets the mode is told of the option, and the other way round (R-MODE-05).
        await self._link.show(session.id, OptionsReport(session.options))
        return v1.SetSessionModeResponse()

    async def set_session_config_option(
        self, params: v1.SetSessionConfigOptionRequest, context: v1.AgentContext
    ) -> v1.SetSessionConfigOptionResponse:
        session = self.host.session(params.session_id)
        mode_was = session.mode
        await self.host.set_option(session, params.config_id, params.value)
        if (mode := session.mode) is not None and mode != mode_was:
            await self._link.show_mode(session.id, mode)
        return v1.SetSessionConfigOptionResponse(config_options=self._link.options(session.options))


async def _raise(error: BaseException) -> None:
    raise error


def _tokens(tokens: Tokens) -> v1.Usage:
    return v1.Usage(
        total_tokens=tokens.total,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        thought_tokens=tokens.thought,
        cached_read_tokens=tokens.cached_read,
        cached_write_tokens=tokens.cached_write,
    )


def _mcp_servers(servers: Sequence[v1.McpServer]) -> list[McpServer]:
    from accord.types.mcp import McpHttp, McpSse, McpStdio

    found: list[McpServer] = []
    for server in servers:
        match server:
            case v1.McpServerStdio():
                env = _pairs(server.env)
                found.append(McpStdio(server.name, server.command, tuple(server.args), env))
            case v1.McpServerHttp():
                found.append(McpHttp(server.name, server.url, _pairs(server.headers)))
            case v1.McpServerSse():
                found.append(McpSse(server.name, server.url, _pairs(server.headers)))
            case _:
                raise InvalidParams("Unknown MCP transport")  # refused before, unless offered
        if any(other.name == server.name for other in found[:-1]):  # R-MCP-15
            raise InvalidParams("Two MCP servers have one name", data={"name": server.name})
    return found


def _pairs(entries: Sequence[Any]) -> dict[str, str]:
    return {entry.name: entry.value for entry in entries}


def _setup(params: Any, agent: Agent) -> Setup:
    prompt = None
    if params.system_prompt is not None:  # refused before, unless offered
        from accord.agent.system_prompt import system_prompt_from

        prompt = system_prompt_from(params.system_prompt, v1.TextContent, agent.system_prompt)
    return Setup(
        cwd=params.cwd,
        system_prompt=prompt,
        additional=params.additional_directories,
        mcp_servers=_mcp_servers(params.mcp_servers),
    )


class _StoredRole(AgentRole):
    """Serves what a store makes possible."""

    async def load_session(
        self, params: v1.LoadSessionRequest, context: v1.AgentContext
    ) -> v1.LoadSessionResponse:
        session = await self.host.resume(
            params.session_id, _setup(params, self.host.agent), replay=True
        )
        self.host.tell_commands(session)
        return v1.LoadSessionResponse(**self._offers(session))

    async def resume_session(
        self, params: v1.ResumeSessionRequest, context: v1.AgentContext
    ) -> v1.ResumeSessionResponse:
        session = await self.host.resume(
            params.session_id, _setup(params, self.host.agent), replay=False
        )
        self.host.tell_commands(session)
        return v1.ResumeSessionResponse(**self._offers(session))

    async def fork_session(
        self, params: v1.ForkSessionRequest, context: v1.AgentContext
    ) -> v1.ForkSessionResponse:
        session = await self.host.fork(params.session_id, _setup(params, self.host.agent))
        self.host.tell_commands(session)
        return v1.ForkSessionResponse(session_id=session.id, **self._offers(session))

    async def list_sessions(
        self, params: v1.ListSessionsRequest, context: v1.AgentContext
    ) -> v1.ListSessionsResponse:
        page = await self.host.list(cwd=params.cwd, archived=params.archived, cursor=params.cursor)
        found = [
            v1.SessionInfo(
                session_id=stored.id,
                cwd=stored.cwd,
                additional_directories=list(stored.additional),
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
        return v1.SessionStatusResponse(status=await self.host.status(params.session_id))

    async def set_session_title(
        self, params: v1.SetSessionTitleRequest, context: v1.AgentContext
    ) -> v1.SetSessionTitleResponse:
        title = await self.host.set_title(params.session_id, params.title)
        return v1.SetSessionTitleResponse(title=title)

    async def archive_session(
        self, params: v1.ArchiveSessionRequest, context: v1.AgentContext
    ) -> v1.ArchiveSessionResponse:
        await self.host.archive(params.session_id, archived=True)
        return v1.ArchiveSessionResponse()

    async def unarchive_session(
        self, params: v1.UnarchiveSessionRequest, context: v1.AgentContext
    ) -> v1.UnarchiveSessionResponse:
        await self.host.archive(params.session_id, archived=False)
        return v1.UnarchiveSessionResponse()

    async def delete_session(
        self, params: v1.DeleteSessionRequest, context: v1.AgentContext
    ) -> v1.DeleteSessionResponse:
        await self.host.delete(params.session_id)
        return v1.DeleteSessionResponse()


def role_for(host: Host, *extra: type[AgentRole]) -> v1.Agent:
    """Return what serves version 1 for a host, with what its agent has besides sessions."""
    kinds = extra if host.agent.store is None else (*extra, _StoredRole)
    return type("Role", kinds, {})(host) if kinds else AgentRole(host)
