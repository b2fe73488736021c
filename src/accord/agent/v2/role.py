"""Serves agents in version 2: a prompt is answered once it has its place, states tell the rest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from accord import v2
from accord.agent.session_manager import SessionManager, SessionSetup
from accord.connection.tasks import ends_process, is_dropped
from accord.errors import InternalError, InvalidParams, TransportError
from accord.wire.base import replace

if TYPE_CHECKING:
    from accord.agent.agent import Agent
    from accord.agent.session import Session
    from accord.agent.turn_runner import TurnRunner
    from accord.agent.v2.client_adapter import ClientAdapterV2
    from accord.types.mcp import McpServer

# Editors start agents all the time: what `initialize` does without is imported later.

__all__ = ("AgentRoleV2", "StoreRoleV2", "role_for")

log = logging.getLogger("accord.agent")


class AgentRoleV2(v2.AgentRole):
    """Serves version 2 for a host."""

    def __init__(self, host: SessionManager) -> None:
        self.manager = host

    @property
    def _client_adapter(self) -> ClientAdapterV2:
        from accord.agent.v2.client_adapter import ClientAdapterV2

        link = self.manager.client_adapter
        assert isinstance(link, ClientAdapterV2), "set by initialize"
        return link

    def initialize(
        self, params: v2.InitializeRequest, context: v2.AgentContext
    ) -> v2.InitializeResponse:
        agent = self.manager.agent

        def link() -> ClientAdapterV2:
            from accord.agent.v2.client_adapter import ClientAdapterV2

            return ClientAdapterV2(params, context, unstable=agent.unstable)

        self.manager.set_client_adapter(link)
        return v2.InitializeResponse(
            protocol_version=2,
            info=v2.Implementation(
                name=agent.info.name, version=agent.info.version, title=agent.info.title
            )
            if agent.info is not None
            else v2.Implementation(name=type(agent).__name__, version="0"),
            capabilities=self.capabilities(),
            auth_methods=list(self.auth_methods),
        )

    def capabilities(self) -> v2.AgentCapabilities:
        agent = self.manager.agent
        derived = self._derived_capabilities()
        takes = agent.prompt_capabilities
        session = replace(
            derived.session or v2.SessionCapabilities(),
            system_prompt=self._system_prompt(),
            prompt=v2.PromptCapabilities(
                image=v2.PromptImageCapabilities() if "image" in takes else None,
                audio=v2.PromptAudioCapabilities() if "audio" in takes else None,
                embedded_context=v2.PromptEmbeddedContextCapabilities()
                if "resource" in takes
                else None,
            ),
            mcp=v2.McpCapabilities(
                stdio=v2.McpStdioCapabilities() if "stdio" in agent.mcp_transports else None,
                http=v2.McpHttpCapabilities() if "http" in agent.mcp_transports else None,
            ),
            additional_directories=v2.SessionAdditionalDirectoriesCapabilities(),
        )
        return agent.capabilities_v2(replace(derived, session=session))

    def _system_prompt(self) -> v2.SessionSystemPromptCapabilities | None:
        agent = self.manager.agent
        if not agent.unstable or not agent.system_prompt:
            return None
        if "override" not in agent.system_prompt:
            return v2.SessionSystemPromptCapabilities()
        override = v2.SessionSystemPromptOverrideCapabilities()
        return v2.SessionSystemPromptCapabilities(
            mode=v2.SessionSystemPromptModeCapabilities(override=override)
        )

    def _derived_capabilities(self) -> v2.AgentCapabilities:
        if type(self) is not AgentRoleV2:
            offered = v2.AgentRole.capabilities(self)
            if self.manager.agent.unstable or offered.session is None:
                return offered
            stable = replace(offered.session, fork=None, archive=None, status=None, title=None)
            return replace(offered, session=stable)
        # What the methods of this class stand for; to derive that takes milliseconds.
        return v2.AgentCapabilities(session=v2.SessionCapabilities())

    async def new_session(
        self, params: v2.NewSessionRequest, context: v2.AgentContext
    ) -> v2.NewSessionResponse:
        session = await self.manager.new_session(_setup(params, self.manager.agent))
        return v2.NewSessionResponse(session_id=session.id, **_session_fields(session))

    async def resume_session(
        self, params: v2.ResumeSessionRequest, context: v2.AgentContext
    ) -> v2.ResumeSessionResponse:
        if params.replay_from is not None and not isinstance(
            params.replay_from, v2.ReplayFromStart
        ):
            raise InvalidParams("A replay begins at the start or not at all")  # R-SESS-16
        session = await self.manager.resume(
            params.session_id,
            _setup(params, self.manager.agent),
            replay=params.replay_from is not None,
        )
        await self._client_adapter.send_state(session)  # R-SESS-29
        return v2.ResumeSessionResponse(**_session_fields(session))

    async def list_sessions(
        self, params: v2.ListSessionsRequest, context: v2.AgentContext
    ) -> v2.ListSessionsResponse:
        found = [
            v2.SessionInfo(
                session_id=session.id,
                cwd=session.cwd,
                additional_directories=list(session.directories[1:]),
                title=session.title,
            )
            for session in self.manager.sessions.values()
            if params.cwd in (None, session.cwd)
        ]
        return v2.ListSessionsResponse(sessions=found)

    async def close_session(
        self, params: v2.CloseSessionRequest, context: v2.AgentContext
    ) -> v2.CloseSessionResponse:
        if params.session_id in self.manager.sessions:  # R-SESS-32
            await self.manager.close(params.session_id)
        return v2.CloseSessionResponse()

    async def prompt(self, params: v2.PromptRequest, context: v2.AgentContext) -> v2.PromptResponse:
        from accord.types.convert_v2 import content_from_wire

        content = tuple(content_from_wire(block) for block in params.prompt)
        course = self.manager.start_turn(params.session_id, content, params.meta)
        course.enqueue()
        await course.wait_for_turn()  # R-PROMPT-24, R-PROMPT-27
        try:
            await course.store_prompt()
        except BaseException:
            course.dequeue()
            raise
        # From here on there is nothing to withdraw: who cancels now cancels the turn.
        context.start(self._work(course))
        return v2.PromptResponse(message_id=course.turn.message_id)

    async def _work(self, course: TurnRunner) -> None:
        from accord.agent.updates import MessageUpdate, TurnEnded, TurnError

        session, link, turn = course.session, self._client_adapter, course.turn
        task = asyncio.current_task()
        try:
            await link.send_update(session.id, MessageUpdate("user", turn.message_id, turn.content))
            await session.update_state()
            ended = await course.run(self.manager.agent)
            session.set_idle()
            await link.send_turn_end(session, ended, turn.end_meta)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:
            if is_dropped(exc, task) or ends_process(exc):
                raise
            if not isinstance(exc, TransportError) or not link.is_closed:
                # The store has failed, say. The client waits for the end all the same.
                log.exception("! the turn could not be told")
                session.set_idle()
                with suppress(TransportError):
                    error = InternalError()
                    ended = TurnEnded("error", TurnError(error.code, error.message))
                    await link.send_turn_end(session, ended)
        finally:
            session.set_idle()
            course.dequeue()
        if course.exit_error is not None:
            raise course.exit_error

    async def extension_request(self, method: str, params: Any, context: Any) -> Any:
        return await self.manager.agent.extension_request(method, params, self.manager.client)

    async def extension_notification(self, method: str, params: Any, context: Any) -> None:
        await self.manager.agent.extension_notification(method, params, self.manager.client)

    def cancel(self, params: v2.CancelSessionNotification, context: v2.AgentContext) -> None:
        context.cancel_prompts(params.session_id)  # those that are held
        if (child := self.manager.subagents.get(params.session_id)) is not None:
            child.cancel()
            return
        session = self.manager.sessions.get(params.session_id)
        if session is not None and session.turn_queue:
            session.turn_queue[0].turn.cancel()

    def cancel_tool_call(
        self, params: v2.CancelToolCallRequest, context: v2.AgentContext
    ) -> v2.CancelToolCallResponse:
        call = self.manager.find(params.session_id).open_tool_calls.get(params.tool_call_id)
        if call is None or not call.cancellable or call.final_status_sent:
            raise InvalidParams("The tool call cannot be cancelled")  # R-TCAN-05
        call.cancel()
        return v2.CancelToolCallResponse()

    def cancel_terminal(
        self, params: v2.CancelTerminalRequest, context: v2.AgentContext
    ) -> v2.CancelTerminalResponse:
        running = self.manager.find(params.session_id).background_work.commands
        if params.terminal_id not in running:
            raise InvalidParams("The terminal cannot be cancelled")  # R-TCAN-05
        _, command = running[params.terminal_id]
        context.start(command.kill())
        return v2.CancelTerminalResponse()

    async def set_session_config_option(
        self, params: v2.SetSessionConfigOptionRequest, context: v2.AgentContext
    ) -> v2.SetSessionConfigOptionResponse:
        match params:
            case v2.SetSessionConfigOptionId() | v2.SetSessionConfigOptionBoolean():
                session = self.manager.session(params.session_id)
                await self.manager.set_option(session, params.config_id, params.value)
            case _:
                raise InvalidParams("Unknown type of value")  # R-CONF-11
        from accord.agent.v2.client_adapter import options_to_wire

        options = options_to_wire(session.options)
        return v2.SetSessionConfigOptionResponse(config_options=options)


def _session_fields(session: Session) -> dict[str, Any]:
    from accord.agent.v2.client_adapter import commands_to_wire, options_to_wire

    return {
        "config_options": options_to_wire(session.options),
        "available_commands": commands_to_wire(session.commands),
    }


def _state(session: Session) -> v2.SessionState:
    from accord.agent.shared_updates import background_to_wire

    background = background_to_wire(session.background_work.items())
    match session.state:
        case "idle":
            return v2.IdleState(background=background)
        case "running":
            return v2.RunningState(background=background)
        case "requires_action":
            return v2.RequiresActionState(background=background)


def _mcp_servers(servers: Sequence[v2.McpServer]) -> list[McpServer]:
    from accord.types.mcp import McpServerHttp, McpServerStdio

    found: list[McpServer] = []
    for server in servers:
        match server:
            case v2.McpServerStdio():
                env = _pairs(server.env)
                found.append(McpServerStdio(server.name, server.command, tuple(server.args), env))
            case v2.McpServerHttp():
                found.append(McpServerHttp(server.name, server.url, _pairs(server.headers)))
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

        prompt = system_prompt_from(params.system_prompt, v2.TextContent, agent.system_prompt)
    return SessionSetup(
        cwd=params.cwd,
        system_prompt=prompt,
        additional_directories=params.additional_directories,
        mcp_servers=_mcp_servers(params.mcp_servers),
    )


class StoreRoleV2(AgentRoleV2):
    """Serves what a store makes possible."""

    async def fork_session(
        self, params: v2.ForkSessionRequest, context: v2.AgentContext
    ) -> v2.ForkSessionResponse:
        session = await self.manager.fork(params.session_id, _setup(params, self.manager.agent))
        return v2.ForkSessionResponse(session_id=session.id, **_session_fields(session))

    async def list_sessions(
        self, params: v2.ListSessionsRequest, context: v2.AgentContext
    ) -> v2.ListSessionsResponse:
        page = await self.manager.list(
            cwd=params.cwd, archived=params.archived, cursor=params.cursor
        )
        found = [
            v2.SessionInfo(
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
        return v2.ListSessionsResponse(sessions=found, next_cursor=page.next_cursor)

    async def session_status(
        self, params: v2.SessionStatusRequest, context: v2.AgentContext
    ) -> v2.SessionStatusResponse:
        status = await self.manager.status(params.session_id)
        session = self.manager.agent.sessions.get(params.session_id)
        state = None if session is None else _state(session)
        return v2.SessionStatusResponse(status=status, state=state)

    async def set_session_title(
        self, params: v2.SetSessionTitleRequest, context: v2.AgentContext
    ) -> v2.SetSessionTitleResponse:
        title = await self.manager.set_title(params.session_id, params.title)
        return v2.SetSessionTitleResponse(title=title)

    async def archive_session(
        self, params: v2.ArchiveSessionRequest, context: v2.AgentContext
    ) -> v2.ArchiveSessionResponse:
        await self.manager.archive(params.session_id, archived=True)
        return v2.ArchiveSessionResponse()

    async def unarchive_session(
        self, params: v2.UnarchiveSessionRequest, context: v2.AgentContext
    ) -> v2.UnarchiveSessionResponse:
        await self.manager.archive(params.session_id, archived=False)
        return v2.UnarchiveSessionResponse()

    async def delete_session(
        self, params: v2.DeleteSessionRequest, context: v2.AgentContext
    ) -> v2.DeleteSessionResponse:
        await self.manager.delete(params.session_id)
        return v2.DeleteSessionResponse()


def role_for(host: SessionManager, *extra: type[AgentRoleV2]) -> v2.AgentRole:
    """Return what serves version 2 for a host, with what its agent has besides sessions."""
    kinds = extra if host.agent.store is None else (*extra, StoreRoleV2)
    return type("Role", kinds, {})(host) if kinds else AgentRoleV2(host)
