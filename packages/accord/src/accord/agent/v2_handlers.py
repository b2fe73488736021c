"""Handles the client's requests in version 2: states report when turns start and end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from accord import v2
from accord.agent.client_adapter import background_to_wire
from accord.agent.handlers import SharedHandlers
from accord.agent.session_core import SessionCore
from accord.agent.session_manager import SessionManager, TurnRunner
from accord.agent.updates import MessageUpdate, TurnEnded, TurnError
from accord.agent.v2 import commands_to_wire, options_to_wire
from accord.connection.routes import Context
from accord.connection.tasks import ends_process, is_dropped
from accord.errors import InternalError, InvalidParams, RequestError, TransportError
from accord.types.content import ContentBlock
from accord.types.convert_v2 import content_from_wire

log: logging.Logger = logging.getLogger("accord.agent")


class HandlersV2(SharedHandlers):
    """Serves version 2 with a session manager."""

    def __init__(self, manager: SessionManager) -> None:
        super().__init__(manager, v2)

    def session_fields(self, core: SessionCore) -> dict[str, Any]:
        """Return the options and commands of a session."""
        return {
            "config_options": options_to_wire(core.options),
            "available_commands": commands_to_wire(core.commands),
        }

    async def resume_session(
        self, params: v2.ResumeSessionRequest, context: v2.AgentContext
    ) -> v2.ResumeSessionResponse:
        replay_from = params.replay_from
        if replay_from is not None and not isinstance(replay_from, v2.ReplayFromStart):
            raise InvalidParams("A replay begins at the start or not at all")  # R-SESS-16
        core = await self.manager.resume(
            params.session_id, self.setup_from(params), replay=replay_from is not None
        )
        await core.send_state()  # R-SESS-29: after the replay
        return v2.ResumeSessionResponse(**self.session_fields(core))

    async def list_sessions(
        self, params: v2.ListSessionsRequest, context: Context
    ) -> v2.ListSessionsResponse:
        """List the stored sessions; without a store, the open ones."""
        if self.manager.stored_sessions is not None:
            return await super().list_sessions(params, context)
        if params.cursor is not None:
            raise InvalidParams("Invalid cursor")  # R-LIST-06: the open ones are one page
        sessions = [
            v2.SessionInfo(
                session_id=core.id,
                cwd=core.cwd,
                additional_directories=list(core.directories[1:]),
                title=core.title,
            )
            for core in self.manager.cores.values()
            if params.cwd in (None, core.cwd)
        ]
        return v2.ListSessionsResponse(sessions=sessions)

    async def session_status(
        self, params: v2.SessionStatusRequest, context: v2.AgentContext
    ) -> v2.SessionStatusResponse:
        status = await self.manager.status(params.session_id)
        core = self.manager.open_anywhere(params.session_id)
        state = None if core is None else _state(core)
        return v2.SessionStatusResponse(status=status, state=state)

    async def close_session(
        self, params: v2.CloseSessionRequest, context: v2.AgentContext
    ) -> v2.CloseSessionResponse:
        if params.session_id in self.manager.cores:  # R-SESS-32
            await self.manager.close(params.session_id)
        return v2.CloseSessionResponse()

    def content_from(self, request: v2.PromptRequest) -> tuple[ContentBlock, ...]:
        return tuple(content_from_wire(block) for block in request.prompt)

    async def start_detached(self, request: v2.PromptRequest, context: v2.AgentContext) -> None:
        await self.prompt(request, context)

    async def prompt(self, params: v2.PromptRequest, context: v2.AgentContext) -> v2.PromptResponse:
        content = self.content_from(params)
        runner = self.manager.start_turn(params.session_id, content, params.meta)
        runner.enqueue()
        await runner.wait_for_turn()  # R-PROMPT-24, R-PROMPT-27
        try:
            await runner.store_prompt()
        except BaseException:
            runner.dequeue()
            raise
        # From here on, a cancel cancels the turn and no longer the request.
        context.start(self._run(runner))
        return v2.PromptResponse(message_id=runner.state.message_id)

    async def _run(self, runner: TurnRunner) -> None:
        core, turn = runner.core, runner.turn
        adapter = self.manager.client_adapter
        task = asyncio.current_task()
        try:
            prompt = MessageUpdate("user", runner.state.message_id, turn.content)
            await adapter.send_update(core.id, prompt)
            await core.update_state()
            ended = await runner.run()
            core.set_idle()
            await adapter.send_turn_end(core.id, ended, core.background, turn.end_meta)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:
            if is_dropped(exc, task) or ends_process(exc):
                raise
            if not isinstance(exc, TransportError) or not adapter.is_closed:
                # For example, the store has failed. The client still waits for the end.
                # The text of a RequestError says enough, for example that the session was taken.
                shown = None if isinstance(exc, RequestError) else exc
                log.error("! the end of a turn could not be sent: %s", exc, exc_info=shown)
                core.set_idle()
                with suppress(TransportError):
                    error = exc if isinstance(exc, RequestError) else InternalError()
                    failed = TurnEnded("error", TurnError(error.code, error.message))
                    await adapter.send_turn_end(core.id, failed, core.background)
        finally:
            core.set_idle()
            runner.dequeue()
        if runner.exit_error is not None:
            raise runner.exit_error

    def cancel(self, params: v2.CancelSessionNotification, context: v2.AgentContext) -> None:
        context.cancel_prompts(params.session_id)  # the queued ones
        manager = self.manager
        core = manager.subagents.get(params.session_id) or manager.cores.get(params.session_id)
        if core is not None:
            core.cancel()

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
        running = self.manager.find(params.session_id).background.commands
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
                core = self.manager.session(params.session_id)
                await self.manager.set_option(core, params.config_id, params.value)
            case _:
                raise InvalidParams("Unknown type of value")  # R-CONF-11
        options = options_to_wire(core.options)
        return v2.SetSessionConfigOptionResponse(config_options=options)

    async def login(
        self, params: v2.LoginAuthRequest, context: v2.AgentContext
    ) -> v2.LoginAuthResponse:
        await self.log_in(params.method_id, context)
        return v2.LoginAuthResponse()

    async def logout(
        self, params: v2.LogoutAuthRequest, context: v2.AgentContext
    ) -> v2.LogoutAuthResponse:
        await self.log_out(context)
        return v2.LogoutAuthResponse()


def _state(core: SessionCore) -> v2.SessionState:
    background = background_to_wire(v2, core.background.items())
    match core.state:
        case "idle":
            return v2.IdleState(background=background)
        case "running":
            return v2.RunningState(background=background)
        case "requires_action":
            return v2.RequiresActionState(background=background)
