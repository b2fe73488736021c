"""Handles the client's requests in version 1: the response to a prompt ends its turn."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from msgspec import UNSET

from accord import v1
from accord.agent.client_adapter import mode_of, usage_to_wire
from accord.agent.handlers import SharedHandlers
from accord.agent.session_core import SessionCore
from accord.agent.session_manager import SessionManager, TurnRunner
from accord.agent.updates import OptionsUpdate
from accord.agent.v1 import ClientAdapterV1, modes_to_wire
from accord.errors import InvalidParams, InvalidRequest, RequestError
from accord.types.content import ContentBlock
from accord.types.convert_v1 import content_from_wire


class HandlersV1(SharedHandlers):
    """Serves version 1 with a session manager."""

    def __init__(self, manager: SessionManager) -> None:
        super().__init__(manager, v1)

    @property
    def _client_adapter(self) -> ClientAdapterV1:
        adapter = self.manager.client_adapter
        assert isinstance(adapter, ClientAdapterV1), "set by initialize"
        return adapter

    def session_fields(self, core: SessionCore) -> dict[str, Any]:
        """Return the modes and options of a session, whose commands are sent after this."""
        self.manager.send_commands(core)
        if not core.options:
            return {}
        return {
            "modes": modes_to_wire(core.options),
            "config_options": self._client_adapter.options_to_wire(core.options),
        }

    async def load_session(
        self, params: v1.LoadSessionRequest, context: v1.AgentContext
    ) -> v1.LoadSessionResponse:
        setup = self.setup_from(params)
        core = await self.manager.resume(params.session_id, setup, replay=True)
        return v1.LoadSessionResponse(**self.session_fields(core))

    async def resume_session(
        self, params: v1.ResumeSessionRequest, context: v1.AgentContext
    ) -> v1.ResumeSessionResponse:
        setup = self.setup_from(params)
        core = await self.manager.resume(params.session_id, setup, replay=False)
        return v1.ResumeSessionResponse(**self.session_fields(core))

    async def session_status(
        self, params: v1.SessionStatusRequest, context: v1.AgentContext
    ) -> v1.SessionStatusResponse:
        return v1.SessionStatusResponse(status=await self.manager.status(params.session_id))

    async def close_session(
        self, params: v1.CloseSessionRequest, context: v1.AgentContext
    ) -> v1.CloseSessionResponse:
        await self.manager.close(params.session_id)
        return v1.CloseSessionResponse()

    def content_from(self, request: v1.PromptRequest) -> tuple[ContentBlock, ...]:
        return tuple(content_from_wire(block) for block in request.prompt)

    async def start_detached(self, request: v1.PromptRequest, context: v1.AgentContext) -> None:
        content = self.content_from(request)
        runner = self.manager.start_turn(request.session_id, content, request.meta)
        runner.enqueue()
        context.start(self._run_detached(runner))

    async def _run_detached(self, runner: TurnRunner) -> None:
        await runner.wait_for_turn()
        try:
            await runner.store_prompt()
            await runner.run()
            await self._client_adapter.flush_tool_content(runner.core.id)
        finally:
            runner.core.set_idle()
            runner.dequeue()
        if runner.exit_error is not None:
            raise runner.exit_error

    def prompt(
        self, params: v1.PromptRequest, context: v1.AgentContext
    ) -> Awaitable[v1.PromptResponse]:
        content = self.content_from(params)
        runner = self.manager.start_turn(params.session_id, content, params.meta)
        if not runner.core.turn_queue:
            # A cancel that comes before the first step: the prompt is stored all the same.
            runner.core.arriving = runner.state
        return self._prompt(runner, context)

    async def _prompt(self, runner: TurnRunner, context: v1.AgentContext) -> v1.PromptResponse:
        core = runner.core
        if core.turn_queue:
            raise InvalidRequest("A turn is running in this session")
        core.arriving = None
        runner.enqueue()
        try:
            await runner.store_prompt()
            ended = await runner.run()
            await self._client_adapter.flush_tool_content(core.id)
        finally:
            core.set_idle()
            runner.dequeue()
        if runner.exit_error is not None:
            context.start(_raise(runner.exit_error))  # after the response
        if (failure := ended.failure) is not None:
            data = None if failure.data is UNSET else failure.data
            raise RequestError.of(failure.code, failure.message, data)
        return v1.PromptResponse(
            stop_reason=self._client_adapter.stop_reason(ended.stop_reason),
            usage=None if ended.tokens is None else usage_to_wire(v1, ended.tokens),
            meta=runner.turn.end_meta,
        )

    def cancel(self, params: v1.CancelNotification, context: v1.AgentContext) -> None:
        if (child := self.manager.subagents.get(params.session_id)) is not None:
            child.cancel()
            return
        core = self.manager.cores.get(params.session_id)
        if core is not None:
            core.background.cancel()  # this version has no other way to cancel it
        if core is not None and core.turn_queue:
            core.cancel()
        elif core is not None and core.arriving is not None:
            core.arriving.cancel()
        else:
            context.cancel_prompts(params.session_id)

    async def set_session_mode(
        self, params: v1.SetSessionModeRequest, context: v1.AgentContext
    ) -> v1.SetSessionModeResponse:
        core = self.manager.session(params.session_id)
        mode = mode_of(core.options)
        if mode is None:
            raise InvalidParams("The session has no modes")
        await self.manager.set_option(core, mode.id, params.mode_id)
        # A client that sets the mode receives the options, and the other way round (R-MODE-05).
        await self._client_adapter.send_update(core.id, OptionsUpdate(core.options))
        return v1.SetSessionModeResponse()

    async def set_session_config_option(
        self, params: v1.SetSessionConfigOptionRequest, context: v1.AgentContext
    ) -> v1.SetSessionConfigOptionResponse:
        core = self.manager.session(params.session_id)
        previous_mode = core.mode
        await self.manager.set_option(core, params.config_id, params.value)
        if (mode := core.mode) is not None and mode != previous_mode:
            await self._client_adapter.send_mode(core.id, mode)
        options = self._client_adapter.options_to_wire(core.options)
        return v1.SetSessionConfigOptionResponse(config_options=options)

    async def authenticate(
        self, params: v1.AuthenticateRequest, context: v1.AgentContext
    ) -> v1.AuthenticateResponse:
        await self.log_in(params.method_id, context)
        return v1.AuthenticateResponse()

    async def logout(self, params: v1.LogoutRequest, context: v1.AgentContext) -> v1.LogoutResponse:
        await self.log_out(context)
        return v1.LogoutResponse()


async def _raise(error: BaseException) -> None:
    raise error
