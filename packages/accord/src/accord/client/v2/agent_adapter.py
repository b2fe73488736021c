"""Calls an agent of version 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from accord import v2
from accord.client.agent_adapter import AgentAdapter, AuthMethod, OpenedSession, SessionSetup
from accord.client.event_stream import UpdateReader
from accord.client.events import StateChanged
from accord.client.v2.updates import (
    commands_from_wire,
    events_from_update,
    options_from_wire,
    state_from_wire,
)
from accord.errors import LocalProtocolError
from accord.text.excerpt import excerpt
from accord.types.content import ContentBlock
from accord.types.convert_v2 import content_to_wire
from accord.types.mcp import McpServerSse
from accord.types.session import Implementation, SessionOption
from accord.version import ProtocolVersion
from accord.wire.base import Unknown


class AgentAdapterV2(AgentAdapter):
    """Calls an agent of version 2."""

    version: ClassVar[ProtocolVersion] = 2
    types = v2
    method_names: ClassVar[Mapping[str, str]] = {
        "load_session": "resume_session",
        "set_session_mode": "set_session_config_option",
        "authenticate": "login",
        "providers": "list_providers",
    }
    echoes_prompts = True
    events_from_update: UpdateReader = staticmethod(events_from_update)
    options_from_wire: Callable[[Any], tuple[SessionOption, ...]] = staticmethod(options_from_wire)
    content_to_wire: Callable[[ContentBlock], Any] = staticmethod(content_to_wire)
    remote: v2.RemoteAgent

    @property
    def info(self) -> Implementation:
        info = self.remote.initialized.info
        return Implementation(info.name, info.version, info.title)

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        methods = map(_auth_method, self.remote.initialized.auth_methods)
        return tuple(method for method in methods if method is not None)

    def supports_content(self, kind: str) -> bool:
        session = self.remote.initialized.capabilities.session
        prompt = None if session is None else session.prompt
        match kind:
            case "image":
                return prompt is not None and prompt.image is not None
            case "audio":
                return prompt is not None and prompt.audio is not None
            case "resource":
                return prompt is not None and prompt.embedded_context is not None
            case _:
                return kind in ("text", "link")

    @property
    def mcp_transports(self) -> frozenset[str]:
        session = self.remote.initialized.capabilities.session
        mcp = None if session is None else session.mcp
        kinds = ("acp", "http", "stdio")
        return frozenset(kind for kind in kinds if getattr(mcp, kind, None) is not None)

    def opened_session(
        self,
        session_id: str,
        response: v2.NewSessionResponse | v2.ResumeSessionResponse | v2.ForkSessionResponse,
    ) -> OpenedSession:
        return OpenedSession(
            session_id=session_id,
            options=options_from_wire(response.config_options) or None,
            commands=commands_from_wire(response.available_commands) or None,
        )

    async def load_session(
        self, session_id: str, setup: SessionSetup, *, replay: bool, opened: Callable[[Any], None]
    ) -> OpenedSession:
        request = v2.ResumeSessionRequest(
            session_id=session_id,
            replay_from=v2.ReplayFromStart() if replay else None,
            **self.setup_to_wire(setup),
        )
        response = await self.remote.resume_session(request, opened=opened)
        return self.opened_session(session_id, response)

    def state_of(self, response: v2.SessionStatusResponse) -> StateChanged | None:
        return None if response.state is None else state_from_wire(response.state)

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[ContentBlock],
        inserted: Callable[[str], None],
        meta: dict[str, Any] | None,
    ) -> None:
        blocks = [content_to_wire(content) for content in contents]
        await self.remote.prompt(
            v2.PromptRequest(session_id=session_id, prompt=blocks, meta=meta),
            inserted=lambda response: inserted(response.message_id),
        )

    async def cancel(self, session_id: str) -> None:
        await self.remote.cancel(v2.CancelSessionNotification(session_id=session_id))

    async def authenticate(self, method_id: str) -> None:
        await self.remote.login(v2.LoginAuthRequest(method_id=method_id))

    async def logout(self) -> None:
        await self.remote.logout(v2.LogoutAuthRequest())

    def server_to_wire(self, server: Any) -> Any:
        if isinstance(server, McpServerSse):
            raise LocalProtocolError(
                f"The MCP server {excerpt(server.name)!r} uses SSE, which protocol version 2 does "
                "not support: use streamable HTTP, or protocol version 1"
            )
        return super().server_to_wire(server)


def _auth_method(method: v2.AuthMethod) -> AuthMethod | None:
    match method:
        case v2.AuthMethodTerminal():
            return AuthMethod(
                id=method.method_id,
                name=method.name,
                description=method.description,
                terminal=True,
                args=tuple(method.args),
                env=tuple((variable.name, variable.value) for variable in method.env),
            )
        case v2.AuthMethodAgent():
            return AuthMethod(id=method.method_id, name=method.name, description=method.description)
        case Unknown():
            return None
