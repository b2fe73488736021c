"""Answers an agent of version 2."""

from __future__ import annotations

import asyncio
from typing import Any

from accord import v2
from accord.client.elicitation import WebPage, form_of
from accord.client.events import PermissionRequest
from accord.client.services import Desk
from accord.client.v2.agent_adapter import login_status_of
from accord.client.v2.updates import read, tool_call_of
from accord.errors import InvalidParams
from accord.types.permission import PermissionOption
from accord.types.session import Info
from accord.wire.codec import to_builtins

__all__ = ("ClientV2",)


class ClientV2(v2.Client):
    """What this side serves."""

    def __init__(self, desk: Desk, info: Info) -> None:
        self.info = v2.Implementation(name=info.name, version=info.version, title=info.title)
        self._desk = desk
        self._feeds = desk.feeds

    def capabilities(self) -> v2.ClientCapabilities:
        desk = self._desk
        form = None if desk.on_form is None else v2.ElicitationFormCapabilities()
        url = None if desk.on_url is None else v2.ElicitationUrlCapabilities()
        asks = form is not None or url is not None
        terminal = v2.TerminalAuthCapabilities() if desk.terminal_login else None
        return v2.ClientCapabilities(
            auth=v2.ClientAuthCapabilities(terminal=terminal) if terminal else None,
            elicitation=v2.ElicitationCapabilities(form=form, url=url) if asks else None,
        )

    def session_update(
        self, params: v2.UpdateSessionNotification, context: v2.ClientContext
    ) -> None:
        feed = self._feeds.get(params.session_id)
        if feed is None:
            feed = self._desk.feed(params.session_id, read)
        feed.take(params.update, context.connection.message_bytes)

    async def request_permission(
        self, params: v2.RequestPermissionRequest, context: v2.ClientContext
    ) -> v2.RequestPermissionResponse:
        desk = self._desk
        feed = desk.feed(params.session_id, read)
        setup = desk.where(params.session_id)
        cwd = "/" if setup is None else setup.cwd
        call_id: str | None = None
        command: str | None = None
        match params.subject:
            case v2.ToolCallPermissionSubject(tool_call=details):
                call_id = details.tool_call_id
                call = tool_call_of(details, feed.transcript)  # R-PERM-10
                if call is not None:
                    feed.emit(call)
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

    # Beside sessions.

    def auth_status_update(
        self, params: v2.AuthStatusUpdateNotification, context: v2.ClientContext
    ) -> None:
        self._desk.login_changed(login_status_of(params))

    def extension_request(self, method: str, params: Any, context: v2.ClientContext) -> Any:
        return self._desk.extension(method, params, is_request=True)

    def extension_notification(self, method: str, params: Any, context: v2.ClientContext) -> Any:
        return self._desk.extension(method, params, is_request=False)


def _id(session_id: Any) -> str | None:
    return session_id if isinstance(session_id, str) else None
