"""Calls an agent of version 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from accord import v1
from accord.client.agent_adapter import (
    AgentAdapter,
    AuthMethod,
    OpenedSession,
    SessionSetup,
    TurnResult,
)
from accord.client.event_stream import UpdateReader
from accord.client.shared_updates import token_usage_from_wire
from accord.client.v1.updates import (
    events_from_update,
    option_from_modes,
    options_from_wire,
    with_modes,
)
from accord.types.content import ContentBlock
from accord.types.convert_v1 import content_to_wire
from accord.types.session import Implementation, SelectOption, SessionOption
from accord.version import ProtocolVersion


class AgentAdapterV1(AgentAdapter):
    """Calls an agent of version 1."""

    version: ClassVar[ProtocolVersion] = 1
    types = v1
    method_names: ClassVar[Mapping[str, str]] = {
        "login": "authenticate",
        "providers": "list_providers",
    }
    echoes_prompts = False
    events_from_update: UpdateReader = staticmethod(events_from_update)
    options_from_wire: Callable[[Any], tuple[SessionOption, ...]] = staticmethod(options_from_wire)
    content_to_wire: Callable[[ContentBlock], Any] = staticmethod(content_to_wire)
    remote: v1.RemoteAgent

    @property
    def info(self) -> Implementation:
        info = self.remote.initialized.agent_info
        if info is None:
            return Implementation("agent")
        return Implementation(info.name, info.version, info.title)

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        return tuple(map(_auth_method, self.remote.initialized.auth_methods))

    def supports_content(self, kind: str) -> bool:
        prompt = self.remote.initialized.agent_capabilities.prompt_capabilities
        match kind:
            case "image":
                return prompt.image
            case "audio":
                return prompt.audio
            case "resource":
                return prompt.embedded_context
            case _:
                return kind in ("text", "link")

    @property
    def mcp_transports(self) -> frozenset[str]:
        mcp = self.remote.initialized.agent_capabilities.mcp_capabilities
        # stdio always (R-MCP-01)
        kinds = {"acp": mcp.acp, "http": mcp.http, "sse": mcp.sse, "stdio": True}
        return frozenset(kind for kind, is_supported in kinds.items() if is_supported)

    def opened_session(
        self,
        session_id: str,
        response: v1.NewSessionResponse
        | v1.LoadSessionResponse
        | v1.ResumeSessionResponse
        | v1.ForkSessionResponse,
    ) -> OpenedSession:
        options: tuple[SessionOption, ...] | None = None
        if response.config_options is not None:
            options = options_from_wire(response.config_options)
        if response.modes is not None:
            options = with_modes(options or (), [option_from_modes(response.modes)])
        return OpenedSession(session_id=session_id, options=options)

    async def load_session(
        self, session_id: str, setup: SessionSetup, *, replay: bool, opened: Callable[[Any], None]
    ) -> OpenedSession:
        params = self.setup_to_wire(setup)
        if replay or not self.supports("resume_session"):
            load = v1.LoadSessionRequest(session_id=session_id, **params)
            response = await self.remote.load_session(load, opened=opened)
        else:
            resume = v1.ResumeSessionRequest(session_id=session_id, **params)
            response = await self.remote.resume_session(resume, opened=opened)
        return self.opened_session(session_id, response)

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[ContentBlock],
        inserted: Callable[[str], None],
        meta: dict[str, Any] | None,
    ) -> TurnResult:
        blocks = [content_to_wire(content) for content in contents]
        response = await self.remote.prompt(
            v1.PromptRequest(session_id=session_id, prompt=blocks, meta=meta)
        )
        usage = response.usage
        return TurnResult(
            stop_reason=response.stop_reason,
            token_usage=None if usage is None else token_usage_from_wire(usage),
            meta=response.meta,
        )

    async def cancel(self, session_id: str) -> None:
        await self.remote.cancel(v1.CancelNotification(session_id=session_id))

    async def set_option(
        self, session_id: str, option: SessionOption, value: str | bool
    ) -> tuple[SessionOption, ...] | None:
        if isinstance(option, SelectOption) and option.from_modes:
            await self.remote.set_session_mode(
                v1.SetSessionModeRequest(session_id=session_id, mode_id=str(value))
            )
            return None
        return await super().set_option(session_id, option, value) or None

    def keep_modes(
        self, options: tuple[SessionOption, ...], earlier: tuple[SessionOption, ...]
    ) -> tuple[SessionOption, ...]:
        return with_modes(options, earlier)

    async def authenticate(self, method_id: str) -> None:
        await self.remote.authenticate(v1.AuthenticateRequest(method_id=method_id))

    async def logout(self) -> None:
        await self.remote.logout(v1.LogoutRequest())


def _auth_method(method: v1.AuthMethod) -> AuthMethod:
    match method:
        case v1.AuthMethodTerminal():
            return AuthMethod(
                id=method.id,
                name=method.name,
                description=method.description,
                terminal=True,
                args=tuple(method.args),
                env=tuple(method.env.items()),
            )
        case v1.AuthMethodAgent():
            return AuthMethod(id=method.id, name=method.name, description=method.description)
