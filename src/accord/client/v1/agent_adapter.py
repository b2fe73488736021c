"""Calls an agent of version 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accord import v1
from accord.client.agent_adapter import (
    AuthMethod,
    OpenedSession,
    SessionInfo,
    SessionPage,
    SessionSetup,
    SessionStatus,
    TurnResult,
)
from accord.client.v1.updates import (
    events_from_update,
    option_from_modes,
    options_from_wire,
    token_usage_from_wire,
)
from accord.errors import LocalProtocolError
from accord.types.auth import AuthAccount, AuthStatus, ProviderInfo
from accord.types.content import ContentBlock
from accord.types.convert_v1 import content_to_wire
from accord.types.mcp import McpServerHttp, McpServerSse, McpServerStdio
from accord.types.session import BooleanOption, Implementation, SessionOption
from accord.version import ProtocolVersion

__all__ = ("AgentAdapterV1", "auth_status_from_wire")


class AgentAdapterV1:
    """Calls an agent of version 1."""

    version: ProtocolVersion = 1
    echoes_prompts = False
    events_from_update = staticmethod(events_from_update)

    def __init__(self, remote: v1.RemoteAgent) -> None:
        self.remote = remote
        self._with_modes: set[str] = set()  # sessions with modes and no option for them

    @property
    def info(self) -> Implementation:
        info = self.remote.initialized.agent_info
        return (
            Implementation("agent")
            if info is None
            else Implementation(info.name, info.version, info.title)
        )

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        return tuple(map(_auth_method, self.remote.initialized.auth_methods))

    def supports(self, method: str) -> bool:
        return self.remote.supports(_METHODS.get(method, method))

    def supports_content(self, kind: str) -> bool:
        """Tell whether prompts may have content of this kind."""
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

    def _opened(
        self,
        session_id: str,
        answer: v1.NewSessionResponse
        | v1.LoadSessionResponse
        | v1.ResumeSessionResponse
        | v1.ForkSessionResponse,
    ) -> OpenedSession:
        options: tuple[SessionOption, ...] | None = None
        if answer.config_options is not None:
            options = options_from_wire(answer.config_options)
        # An option for the mode is used alone (R-MODE-04); where there is none, the modes are it.
        if answer.modes is not None and not any(o.category == "mode" for o in options or ()):
            self._with_modes.add(session_id)
            options = (option_from_modes(answer.modes), *(options or ()))
        return OpenedSession(session_id=session_id, options=options)

    async def new_session(self, setup: SessionSetup) -> OpenedSession:
        answer = await self.remote.new_session(
            v1.NewSessionRequest(
                cwd=setup.cwd,
                mcp_servers=_servers(setup),
                additional_directories=list(setup.additional_directories),
                system_prompt=_system_prompt(setup),
            )
        )
        return self._opened(answer.session_id, answer)

    async def load_session(
        self, session_id: str, setup: SessionSetup, *, replay: bool, opened: Callable[[Any], None]
    ) -> OpenedSession:
        if replay or not self.supports("resume_session"):
            answer = await self.remote.load_session(
                v1.LoadSessionRequest(
                    session_id=session_id,
                    cwd=setup.cwd,
                    mcp_servers=_servers(setup),
                    additional_directories=list(setup.additional_directories),
                    system_prompt=_system_prompt(setup),
                ),
                opened=opened,
            )
        else:
            answer = await self.remote.resume_session(
                v1.ResumeSessionRequest(
                    session_id=session_id,
                    cwd=setup.cwd,
                    mcp_servers=_servers(setup),
                    additional_directories=list(setup.additional_directories),
                    system_prompt=_system_prompt(setup),
                ),
                opened=opened,
            )
        return self._opened(session_id, answer)

    async def fork_session(self, session_id: str, setup: SessionSetup) -> OpenedSession:
        answer = await self.remote.fork_session(
            v1.ForkSessionRequest(
                session_id=session_id,
                cwd=setup.cwd,
                mcp_servers=_servers(setup),
                additional_directories=list(setup.additional_directories),
                system_prompt=_system_prompt(setup),
            )
        )
        return self._opened(answer.session_id, answer)

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str | None
    ) -> SessionPage:
        answer = await self.remote.list_sessions(
            v1.ListSessionsRequest(cwd=cwd, cursor=cursor, archived=archived)
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
        await self.remote.close_session(v1.CloseSessionRequest(session_id=session_id))

    async def delete_session(self, session_id: str) -> None:
        await self.remote.delete_session(v1.DeleteSessionRequest(session_id=session_id))

    async def archive_session(self, session_id: str) -> None:
        await self.remote.archive_session(v1.ArchiveSessionRequest(session_id=session_id))

    async def unarchive_session(self, session_id: str) -> None:
        await self.remote.unarchive_session(v1.UnarchiveSessionRequest(session_id=session_id))

    async def set_session_title(self, session_id: str, title: str) -> str:
        request = v1.SetSessionTitleRequest(session_id=session_id, title=title)
        return (await self.remote.set_session_title(request)).title

    async def session_status(self, session_id: str) -> SessionStatus:
        answer = await self.remote.session_status(v1.SessionStatusRequest(session_id=session_id))
        return SessionStatus(is_open=answer.status == "open")  # R-STATUS-05

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[ContentBlock],
        inserted: Callable[[str], None],
        meta: dict[str, Any] | None,
    ) -> TurnResult:
        blocks = [content_to_wire(content) for content in contents]
        answer = await self.remote.prompt(
            v1.PromptRequest(session_id=session_id, prompt=blocks, meta=meta)
        )
        return TurnResult(
            stop_reason=answer.stop_reason,
            token_usage=token_usage_from_wire(answer.usage),
            meta=answer.meta,
        )

    async def cancel(self, session_id: str) -> None:
        await self.remote.cancel(v1.CancelNotification(session_id=session_id))

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None:
        raise LocalProtocolError("Version 1 cannot cancel a single tool call")

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None:
        raise LocalProtocolError("Version 1 cannot cancel a terminal")

    async def set_option(
        self, session_id: str, option: SessionOption, value: str | bool
    ) -> tuple[SessionOption, ...] | None:
        if option.category == "mode" and session_id in self._with_modes:
            await self.remote.set_session_mode(
                v1.SetSessionModeRequest(session_id=session_id, mode_id=str(value))
            )
            return None
        if isinstance(option, BooleanOption):
            request = v1.SetSessionConfigOptionBoolean(
                session_id=session_id, config_id=option.id, value=bool(value)
            )
        else:
            request = v1.SetSessionConfigOptionId(
                session_id=session_id, config_id=option.id, value=str(value)
            )
        answer = await self.remote.set_session_config_option(request)
        return options_from_wire(answer.config_options) or None

    async def authenticate(self, method_id: str) -> None:
        await self.remote.authenticate(v1.AuthenticateRequest(method_id=method_id))

    async def logout(self) -> None:
        await self.remote.logout(v1.LogoutRequest())

    async def auth_status(self) -> AuthStatus:
        return auth_status_from_wire(await self.remote.auth_status(v1.AuthStatusRequest()))

    # Providers.

    async def providers(self) -> tuple[ProviderInfo, ...]:
        answer = await self.remote.list_providers(v1.ListProvidersRequest())
        return tuple(map(_provider, answer.providers))

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        await self.remote.set_provider(
            v1.SetProviderRequest(
                provider_id=provider_id,
                api_type=api_type,
                base_url=base_url,
                headers=dict(headers),
            )
        )

    async def disable_provider(self, provider_id: str) -> None:
        await self.remote.disable_provider(v1.DisableProviderRequest(provider_id=provider_id))


# What the wire calls otherwise.
_METHODS = {"providers": "list_providers"}


def _servers(setup: SessionSetup) -> list[v1.McpServer]:
    return list(map(_server, setup.mcp_servers))


def _server(server: Any) -> v1.McpServer:
    match server:
        case McpServerStdio(name, command, args, env):
            pairs = [v1.EnvVariable(name=key, value=value) for key, value in env.items()]
            return v1.McpServerStdio(name=name, command=command, args=list(args), env=pairs)
        case McpServerHttp(name, url, headers):
            fields = [v1.HttpHeader(name=key, value=value) for key, value in headers.items()]
            return v1.McpServerHttp(name=name, url=url, headers=fields)
        case McpServerSse(name, url, headers):
            fields = [v1.HttpHeader(name=key, value=value) for key, value in headers.items()]
            return v1.McpServerSse(name=name, url=url, headers=fields)
        case _:
            return server


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


def _system_prompt(setup: SessionSetup) -> v1.SystemPrompt | None:
    given = setup.system_prompt
    if given is None:
        return None
    content = [content_to_wire(content) for content in given.content]
    return v1.SystemPrompt(mode=given.mode, content=content)


def auth_status_from_wire(
    status: v1.AuthStatusResponse | v1.AuthStatusUpdateNotification,
) -> AuthStatus:
    """Return who is logged in; a state of the agent's own says nothing."""
    known = status.state in ("authenticated", "unauthenticated", "not_required")
    accounts = (
        AuthAccount(a.label, a.active, a.name, a.email, a.organization) for a in status.accounts
    )
    return AuthStatus(status.state if known else "unknown", tuple(accounts))  # type: ignore[arg-type]  # it is one of those


def _provider(info: v1.ProviderInfo) -> ProviderInfo:
    current = info.current
    return ProviderInfo(
        id=info.provider_id,
        supported=tuple(info.supported),
        required=info.required,
        api_type=None if current is None else current.api_type,
        base_url=None if current is None else current.base_url,
    )
