"""A client in version 2: what it serves, and how it calls the agent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from accord import v2
from accord.client.desk import Desk
from accord.client.dialect import AuthMethod, Opened, Page, SessionListing, Setup
from accord.client.elicitation import WebPage, form_of
from accord.client.events import PermissionRequest
from accord.client.read_v2 import commands_of, options_of, read, tool_call_of
from accord.errors import InvalidParams
from accord.model.content import Content
from accord.model.mcp import McpHttp, McpStdio
from accord.model.on_v2 import content_to_wire
from accord.model.permission import PermissionOption
from accord.model.session import Info, SessionOption, Switch
from accord.version import ProtocolVersion
from accord.wire.base import Unknown
from accord.wire.codec import to_builtins

__all__ = ("ClientV2", "DialectV2")


class ClientV2(v2.Client):
    """Answers an agent of version 2."""

    def __init__(self, desk: Desk, info: Info) -> None:
        self.info = v2.Implementation(name=info.name, version=info.version, title=info.title)
        self._desk = desk
        self._feeds = desk.feeds

    def capabilities(self) -> v2.ClientCapabilities:
        desk = self._desk
        form = None if desk.on_form is None else v2.ElicitationFormCapabilities()
        url = None if desk.on_url is None else v2.ElicitationUrlCapabilities()
        asks = form is not None or url is not None
        return v2.ClientCapabilities(
            elicitation=v2.ElicitationCapabilities(form=form, url=url) if asks else None
        )

    def session_update(
        self, params: v2.UpdateSessionNotification, context: v2.ClientContext
    ) -> Awaitable[None] | None:
        feed = self._feeds.get(params.session_id)
        if feed is None:
            feed = self._desk.feed(params.session_id, read)
        return feed.take(params.update)

    async def request_permission(
        self, params: v2.RequestPermissionRequest, context: v2.ClientContext
    ) -> v2.RequestPermissionResponse:
        desk = self._desk
        feed = desk.feed(params.session_id, read)
        setup = desk.setups.get(params.session_id)
        cwd = "/" if setup is None else setup.cwd
        call_id: str | None = None
        command: str | None = None
        match params.subject:
            case v2.ToolCallPermissionSubject(tool_call=details):
                call_id = details.tool_call_id
                call = tool_call_of(details, feed.transcript)  # R-PERM-10
                if call is not None and (room := feed.emit(call)) is not None:
                    await room
            case v2.CommandPermissionSubject():
                subject = params.subject
                call_id, command, cwd = subject.tool_call_id, subject.command, subject.cwd
            case _:
                pass  # a generic question (R-PERM-09, R-PERM-13)
        request = PermissionRequest(
            session_id=params.session_id,
            cwd=cwd,
            title=params.title,
            options=tuple(PermissionOption(o.option_id, o.name, o.kind) for o in params.options),
            description=params.description,
            tool_call=None if call_id is None else feed.transcript.tool_call(call_id),
            command=command,
        )
        option = await desk.decide(feed, request)
        outcome = (
            v2.CancelledPermissionOutcome()
            if option is None
            else v2.SelectedPermissionOutcome(option_id=option.id)
        )
        return v2.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(
        self, params: v2.CreateElicitationRequest, context: v2.ClientContext
    ) -> v2.CreateElicitationResponse:
        desk = self._desk
        match params:
            case v2.ElicitationFormMode() if desk.on_form is not None:
                schema = to_builtins(params.requested_schema)
                form = form_of(params.message, schema, _id(params.session_id), params.tool_call_id)
                action, values = await desk.fill_in(form)
                if action == "accept":
                    return v2.ElicitationAcceptAction(content=dict(values or {}))
            case v2.ElicitationUrlMode() if desk.on_url is not None:
                page = WebPage(
                    message=params.message,
                    url=params.url,
                    id=params.elicitation_id,
                    done=asyncio.Event(),
                    session_id=_id(params.session_id),
                    tool_call_id=params.tool_call_id,
                )
                action = await desk.visit(page)
                if action == "accept":
                    return v2.ElicitationAcceptAction()
            case _:
                raise InvalidParams("This mode of elicitation was not offered")  # R-ELIC-03
        if action == "decline":
            return v2.ElicitationDeclineAction()
        return v2.ElicitationCancelAction()

    def complete_elicitation(
        self, params: v2.CompleteElicitationNotification, context: v2.ClientContext
    ) -> None:
        self._desk.visited(params.elicitation_id)


def _id(session_id: Any) -> str | None:
    return session_id if isinstance(session_id, str) else None


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
            )
        )
        return _opened(answer.session_id, answer)

    async def load_session(self, session_id: str, setup: Setup, *, replay: bool) -> Opened:
        answer = await self.wire.resume_session(
            v2.ResumeSessionRequest(
                session_id=session_id,
                cwd=setup.cwd,
                mcp_servers=_servers(setup),
                additional_directories=list(setup.roots),
                replay_from=v2.ReplayFromStart() if replay else None,
            )
        )
        return _opened(session_id, answer)

    async def fork_session(self, session_id: str, setup: Setup) -> Opened:
        answer = await self.wire.fork_session(
            v2.ForkSessionRequest(
                session_id=session_id,
                cwd=setup.cwd,
                mcp_servers=_servers(setup),
                additional_directories=list(setup.roots),
            )
        )
        return _opened(answer.session_id, answer)

    async def list_sessions(self, cwd: str | None, cursor: str | None) -> Page:
        answer = await self.wire.list_sessions(v2.ListSessionsRequest(cwd=cwd, cursor=cursor))
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

    async def prompt(
        self,
        session_id: str,
        contents: Sequence[Content],
        inserted: Callable[[str], None],
    ) -> None:
        blocks = [content_to_wire(content) for content in contents]
        await self.wire.prompt(
            v2.PromptRequest(session_id=session_id, prompt=blocks),
            inserted=lambda answer: inserted(answer.message_id),
        )

    async def cancel(self, session_id: str) -> None:
        await self.wire.cancel(v2.CancelSessionNotification(session_id=session_id))

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


# What version 1 calls otherwise.
_CALLS = {"load_session": "resume_session", "authenticate": "login"}


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
