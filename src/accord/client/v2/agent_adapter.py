"""Calls an agent of version 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accord import v2
from accord.client.agent_adapter import (
    AuthMethod,
    Opened,
    Page,
    SessionListing,
    SessionStatus,
    Setup,
)
from accord.client.v2.updates import commands_of, options_of, read, state_of
from accord.errors import LocalProtocolError
from accord.text.excerpt import excerpt
from accord.types.auth import Account, LoginStatus, Provider
from accord.types.content import Content
from accord.types.convert_v2 import content_to_wire
from accord.types.mcp import McpHttp, McpSse, McpStdio
from accord.types.session import Info, SessionOption, Switch
from accord.version import ProtocolVersion
from accord.wire.base import Unknown

__all__ = ("DialectV2", "login_status_of")


class DialectV2:
    """Calls an agent of version 2."""

    version: ProtocolVersion = 2
    echoes_prompts = True
    read = staticmethod(read)

    def __init__(self, wire: v2.RemoteAgent) -> None:
        self.wire = wire

    @property
    def info(self) -> Info:
        info = self.wire.initialized.info
        return Info(info.name, info.version, info.title)

    @property
    def auth_methods(self) -> tuple[AuthMethod, ...]:
        methods = map(_auth_method, self.wire.initialized.auth_methods)
        return tuple(method for method in methods if method is not None)

    def offers(self, call: str) -> bool:
        return self.wire.offers(_CALLS.get(call, call))

    def takes(self, kind: str) -> bool:
        """Tell whether prompts may have content of this kind."""
        session = self.wire.initialized.capabilities.session
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

    async def new_session(self, setup: Setup) -> Opened:
        answer = await self.wire.new_session(
            v2.NewSessionRequest(
                cwd=setup.cwd,
                mcp_servers=_servers(setup),
                additional_directories=list(setup.roots),
                system_prompt=_system_prompt(setup),
            )
        )
        return _opened(answer.session_id, answer)

    async def load_session(
        self, session_id: str, setup: Setup, *, replay: bool, opened: Callable[[Any], None]
    ) -> Opened:
        answer = await self.wire.resume_session(
            v2.ResumeSessionRequest(
                session_id=session_id,
                cwd=setup.cwd,
                mcp_servers=_servers(setup),
                additional_directories=list(setup.roots),
                system_prompt=_system_prompt(setup),
                replay_from=v2.ReplayFromStart() if replay else None,
            ),
            opened=opened,
        )
        return _opened(session_id, answer)

    async def fork_session(self, session_id: str, setup: Setup) -> Opened:
        answer = await self.wire.fork_session(
            v2.ForkSessionRequest(
                session_id=session_id,
                cwd=setup.cwd,
                mcp_servers=_servers(setup),
                additional_directories=list(setup.roots),
                system_prompt=_system_prompt(setup),
            )
        )
        return _opened(answer.session_id, answer)

    async def list_sessions(
        self, cwd: str | None, cursor: str | None, archived: str | None
    ) -> Page:
        answer = await self.wire.list_sessions(
            v2.ListSessionsRequest(cwd=cwd, cursor=cursor, archived=archived)
        )
        found = (
            SessionListing(
                id=info.session_id,
                cwd=info.cwd,
                roots=tuple(info.additional_directories),
                title=info.title,
                updated_at=info.updated_at,
                archived=info.archived,
            )
            for info in answer.sessions
        )
        return Page(tuple(found), answer.next_cursor)

    async def close_session(self, session_id: str) -> None:
        await self.wire.close_session(v2.CloseSessionRequest(session_id=session_id))

    async def delete_session(self, session_id: str) -> None:
        await self.wire.delete_session(v2.DeleteSessionRequest(session_id=session_id))

    async def archive_session(self, session_id: str) -> None:
        await self.wire.archive_session(v2.ArchiveSessionRequest(session_id=session_id))

    async def unarchive_session(self, session_id: str) -> None:
        await self.wire.unarchive_session(v2.UnarchiveSessionRequest(session_id=session_id))

    async def rename_session(self, session_id: str, title: str) -> str:
        request = v2.SetSessionTitleRequest(session_id=session_id, title=title)
        return (await self.wire.set_session_title(request)).title

    async def session_status(self, session_id: str) -> SessionStatus:
        answer = await self.wire.session_status(v2.SessionStatusRequest(session_id=session_id))
        return SessionStatus(
            open=answer.status == "open",  # R-STATUS-05
            state=None if answer.state is None else state_of(answer.state),
        )

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[Content],
        inserted: Callable[[str], None],
        meta: dict[str, Any] | None,
    ) -> None:
        blocks = [content_to_wire(content) for content in contents]
        await self.wire.prompt(
            v2.PromptRequest(session_id=session_id, prompt=blocks, meta=meta),
            inserted=lambda answer: inserted(answer.message_id),
        )

    async def cancel(self, session_id: str) -> None:
        await self.wire.cancel(v2.CancelSessionNotification(session_id=session_id))

    async def cancel_tool_call(self, session_id: str, tool_call_id: str) -> None:
        await self.wire.cancel_tool_call(
            v2.CancelToolCallRequest(session_id=session_id, tool_call_id=tool_call_id)
        )

    async def cancel_terminal(self, session_id: str, terminal_id: str) -> None:
        await self.wire.cancel_terminal(
            v2.CancelTerminalRequest(session_id=session_id, terminal_id=terminal_id)
        )

    async def set_option(
        self, session_id: str, option: SessionOption, value: str | bool
    ) -> tuple[SessionOption, ...] | None:
        if isinstance(option, Switch):
            request = v2.SetSessionConfigOptionBoolean(
                session_id=session_id, config_id=option.id, value=bool(value)
            )
        else:
            request = v2.SetSessionConfigOptionId(
                session_id=session_id, config_id=option.id, value=str(value)
            )
        answer = await self.wire.set_session_config_option(request)
        return options_of(answer.config_options)

    async def authenticate(self, method_id: str) -> None:
        await self.wire.login(v2.LoginAuthRequest(method_id=method_id))

    async def logout(self) -> None:
        await self.wire.logout(v2.LogoutAuthRequest())

    async def auth_status(self) -> LoginStatus:
        return login_status_of(await self.wire.auth_status(v2.AuthStatusRequest()))

    # Providers.

    async def providers(self) -> tuple[Provider, ...]:
        answer = await self.wire.list_providers(v2.ListProvidersRequest())
        return tuple(map(_provider, answer.providers))

    async def set_provider(
        self, provider_id: str, api_type: str, base_url: str, headers: Mapping[str, str]
    ) -> None:
        await self.wire.set_provider(
            v2.SetProviderRequest(
                provider_id=provider_id,
                api_type=api_type,
                base_url=base_url,
                headers=dict(headers),
            )
        )

    async def disable_provider(self, provider_id: str) -> None:
        await self.wire.disable_provider(v2.DisableProviderRequest(provider_id=provider_id))


# What the wire calls otherwise.
_CALLS = {
    "load_session": "resume_session",
    "authenticate": "login",
    "rename_session": "set_session_title",
    "providers": "list_providers",
}


def _opened(
    session_id: str,
    answer: v2.NewSessionResponse | v2.ResumeSessionResponse | v2.ForkSessionResponse,
) -> Opened:
    return Opened(
        session_id=session_id,
        options=options_of(answer.config_options) or None,
        commands=commands_of(answer.available_commands) or None,
    )


def _servers(setup: Setup) -> list[v2.McpServer]:
    return list(map(_server, setup.mcp_servers))


def _server(server: Any) -> v2.McpServer:
    match server:
        case McpStdio(name, command, args, env):
            pairs = [v2.EnvVariable(name=key, value=value) for key, value in env.items()]
            return v2.McpServerStdio(name=name, command=command, args=list(args), env=pairs)
        case McpHttp(name, url, headers):
            fields = [v2.HttpHeader(name=key, value=value) for key, value in headers.items()]
            return v2.McpServerHttp(name=name, url=url, headers=fields)
        case McpSse(name):
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


def _system_prompt(setup: Setup) -> v2.SystemPrompt | None:
    given = setup.system_prompt
    if given is None:
        return None
    content = [content_to_wire(content) for content in given.content]
    return v2.SystemPrompt(mode=given.mode, content=content)


def login_status_of(
    status: v2.AuthStatusResponse | v2.AuthStatusUpdateNotification,
) -> LoginStatus:
    """Return who is logged in; a state of the agent's own says nothing."""
    known = status.state in ("authenticated", "unauthenticated", "not_required")
    accounts = (
        Account(a.label, a.active, a.name, a.email, a.organization) for a in status.accounts
    )
    return LoginStatus(status.state if known else "unknown", tuple(accounts))  # type: ignore[arg-type]  # it is one of those


def _provider(info: v2.ProviderInfo) -> Provider:
    current = info.current
    return Provider(
        id=info.provider_id,
        supported=tuple(info.supported),
        required=info.required,
        api_type=None if current is None else current.api_type,
        base_url=None if current is None else current.base_url,
    )
