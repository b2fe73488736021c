"""Calls an agent of version 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accord import v2
from accord.client.agent_adapter import (
    AuthMethod,
    OpenedSession,
    SessionInfo,
    SessionPage,
    SessionSetup,
    SessionStatus,
)
from accord.client.v2.updates import (
    commands_from_wire,
    events_from_update,
    options_from_wire,
    state_from_wire,
)
from accord.errors import LocalProtocolError
from accord.text.excerpt import excerpt
from accord.types.auth import AuthAccount, AuthStatus, ProviderInfo
from accord.types.content import ContentBlock
from accord.types.convert_v2 import content_to_wire
from accord.types.mcp import McpServerHttp, McpServerSse, McpServerStdio
from accord.types.session import BooleanOption, Implementation, SessionOption
from accord.version import ProtocolVersion
from accord.wire.base import Unknown

__all__ = ("AgentAdapterV2", "auth_status_from_wire")


class AgentAdapterV2:
    """Calls an agent of version 2."""

    version: ProtocolVersion = 2
    echoes_prompts = True
    events_from_update = staticmethod(events_from_update)

    def __init__(self, remote: v2.RemoteAgent) -> None:
        self.remote = remote

    @property
    def info(self) -> Implementation:
        info = self.remote.initialized.info
        return Implementation(info.name, info.version, info.title)

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        methods = map(_auth_method, self.remote.initialized.auth_methods)
        return tuple(method for method in methods if method is not None)

    def supports(self, method: str) -> bool:
        return self.remote.supports(_METHODS.get(method, method))

    def supports_content(self, kind: str) -> bool:
        """Tell whether prompts may have content of this kind."""
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

    async def new_session(self, setup: SessionSetup) -> OpenedSession:
        answer = await self.remote.new_session(
            v2.NewSessionRequest(
                cwd=setup.cwd,
                mcp_servers=_servers(setup),
                additional_directories=list(setup.additional_directories),
                system_prompt=_system_prompt(setup),
            )
        )
        return _opened(answer.session_id, answer)

    async def load_session(
        self, session_id: str, setup: SessionSetup, *, replay: bool, opened: Callable[[Any], None]
    ) -> OpenedSession:
        answer = await self.remote.resume_session(
            v2.ResumeSessionRequest(
                session_id=session_id,
                cwd=setup.cwd,
                mcp_servers=_servers(setup),
                additional_directories=list(setup.additional_directories),
                system_prompt=_system_prompt(setup),
                replay_from=v2.ReplayFromStart() if replay else None,
            ),
            opened=opened,
        )
        return _opened(session_id, answer)

    async def fork_session(self, session_id: str, setup: SessionSetup) -> OpenedSession:
        answer = await self.remote.fork_session(
            v2.ForkSessionRequest(
                session_id=session_id,
                cwd=setup.cwd,
                mcp_servers=_servers(setup),
                additional_directories=list(setup.additional_directories),
                system_prompt=_system_prompt(setup),
            )
        )
        return _opened(answer.session_id, answer)

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str | None
    ) -> SessionPage:
        answer = await self.remote.list_sessions(
            v2.ListSessionsRequest(cwd=cwd, cursor=cursor, archived=archived)
        )
        found = (
            SessionInfo(
                id=info.session_id,
                cwd=info.cwd,
                additional_directories=tuple(info.additional_directories),
                title=info.title,
                updated_at=info.updated_at,
                archived=info.archived,
            )
            for info in answer.sessions
        )
        return SessionPage(tuple(found), answer.next_cursor)

    async def close_session(self, session_id: str) -> None:
        await self.remote.close_session(v2.CloseSessionRequest(session_id=session_id))

    async def delete_session(self, session_id: str) -> None:
        await self.remote.delete_session(v2.DeleteSessionRequest(session_id=session_id))

    async def archive_session(self, session_id: str) -> None:
        await self.remote.archive_session(v2.ArchiveSessionRequest(session_id=session_id))

    async def unarchive_session(self, session_id: str) -> None:
        await self.remote.unarchive_session(v2.UnarchiveSessionRequest(session_id=session_id))

    async def set_session_title(self, session_id: str, title: str) -> str:
        request = v2.SetSessionTitleRequest(session_id=session_id, title=title)
        return (await self.remote.set_session_title(request)).title

    async def session_status(self, session_id: str) -> SessionStatus:
        answer = await self.remote.session_status(v2.SessionStatusRequest(session_id=session_id))
        return SessionStatus(
            is_open=answer.status == "open",  # R-STATUS-05
            state=None if answer.state is None else state_from_wire(answer.state),
        )

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
            inserted=lambda answer: inserted(answer.message_id),
        )

    async def cancel(self, session_id: str) -> None:
        await self.remote.cancel(v2.CancelSessionNotification(session_id=session_id))

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None:
        await self.remote.cancel_tool_call(
            v2.CancelToolCallRequest(session_id=session_id, tool_call_id=tool_call_id)
        )

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None:
        await self.remote.cancel_terminal(
            v2.CancelTerminalRequest(session_id=session_id, terminal_id=terminal_id)
        )

    async def set_option(
        self, session_id: str, option: SessionOption, value: str | bool
    ) -> tuple[SessionOption, ...] | None:
        if isinstance(option, BooleanOption):
            request = v2.SetSessionConfigOptionBoolean(
                session_id=session_id, config_id=option.id, value=bool(value)
            )
        else:
            request = v2.SetSessionConfigOptionId(
                session_id=session_id, config_id=option.id, value=str(value)
            )
        answer = await self.remote.set_session_config_option(request)
        return options_from_wire(answer.config_options)

    async def authenticate(self, method_id: str) -> None:
        await self.remote.login(v2.LoginAuthRequest(method_id=method_id))

    async def logout(self) -> None:
        await self.remote.logout(v2.LogoutAuthRequest())

    async def auth_status(self) -> AuthStatus:
        return auth_status_from_wire(await self.remote.auth_status(v2.AuthStatusRequest()))

    # Providers.

    async def providers(self) -> tuple[ProviderInfo, ...]:
        answer = await self.remote.list_providers(v2.ListProvidersRequest())
        return tuple(map(_provider, answer.providers))

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        await self.remote.set_provider(
            v2.SetProviderRequest(
                provider_id=provider_id,
                api_type=api_type,
                base_url=base_url,
                headers=dict(headers),
            )
        )

    async def disable_provider(self, provider_id: str) -> None:
        await self.remote.disable_provider(v2.DisableProviderRequest(provider_id=provider_id))


# What the wire calls otherwise.
_METHODS = {
    "load_session": "resume_session",
    "authenticate": "login",
    "providers": "list_providers",
}


def _opened(
    session_id: str,
    answer: v2.NewSessionResponse | v2.ResumeSessionResponse | v2.ForkSessionResponse,
) -> OpenedSession:
    return OpenedSession(
        session_id=session_id,
        options=options_from_wire(answer.config_options) or None,
        commands=commands_from_wire(answer.available_commands) or None,
    )


def _servers(setup: SessionSetup) -> list[v2.McpServer]:
    return list(map(_server, setup.mcp_servers))


def _server(server: Any) -> v2.McpServer:
    match server:
        case McpServerStdio(name, command, args, env):
            pairs = [v2.EnvVariable(name=key, value=value) for key, value in env.items()]
            return v2.McpServerStdio(name=name, command=command, args=list(args), env=pairs)
        case McpServerHttp(name, url, headers):
            fields = [v2.HttpHeader(name=key, value=value) for key, value in headers.items()]
            return v2.McpServerHttp(name=name, url=url, headers=fields)
        case McpServerSse(name):
            raise LocalProtocolError(
                f"The MCP server {excerpt(name)!r} is reached by sse, which version 2 of the "
                "protocol does not have: reach it by http, or speak version 1"
            )
        case _:
            return server


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


def _system_prompt(setup: SessionSetup) -> v2.SystemPrompt | None:
    given = setup.system_prompt
    if given is None:
        return None
    content = [content_to_wire(content) for content in given.content]
    return v2.SystemPrompt(mode=given.mode, content=content)


def auth_status_from_wire(
    status: v2.AuthStatusResponse | v2.AuthStatusUpdateNotification,
) -> AuthStatus:
    """Return who is logged in; a state of the agent's own says nothing."""
    known = status.state in ("authenticated", "unauthenticated", "not_required")
    accounts = (
        AuthAccount(a.label, a.active, a.name, a.email, a.organization) for a in status.accounts
    )
    return AuthStatus(status.state if known else "unknown", tuple(accounts))  # type: ignore[arg-type]  # it is one of those


def _provider(info: v2.ProviderInfo) -> ProviderInfo:
    current = info.current
    return ProviderInfo(
        id=info.provider_id,
        supported=tuple(info.supported),
        required=info.required,
        api_type=None if current is None else current.api_type,
        base_url=None if current is None else current.base_url,
    )
