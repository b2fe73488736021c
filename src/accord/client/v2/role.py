"""Answers an agent of version 2."""

from __future__ import annotations

import asyncio
from typing import Any

from accord import v2
from accord.client.elicitation import UrlElicitationRequest, form_from_schema
from accord.client.events import PermissionRequest
from accord.client.services import ClientServices
from accord.client.v2.agent_adapter import auth_status_from_wire
from accord.client.v2.updates import apply_tool_call, events_from_update
from accord.errors import InvalidParams
from accord.types.permission import PermissionOption
from accord.types.session import Implementation
from accord.wire.codec import to_builtins

__all__ = ("ClientRoleV2",)


class ClientRoleV2(v2.ClientRole):
    """What this side serves."""

    def __init__(self, services: ClientServices, info: Implementation) -> None:
        self.info = v2.Implementation(name=info.name, version=info.version, title=info.title)
        self._services = services
        self._event_streams = services.event_streams

    def capabilities(self) -> v2.ClientCapabilities:
        desk = self._services
        form = None if desk.on_elicit_form is None else v2.ElicitationFormCapabilities()
        url = None if desk.on_elicit_url is None else v2.ElicitationUrlCapabilities()
        asks = form is not None or url is not None
        terminal = v2.TerminalAuthCapabilities() if desk.terminal_login else None
        return v2.ClientCapabilities(
            auth=v2.ClientAuthCapabilities(terminal=terminal) if terminal else None,
            elicitation=v2.ElicitationCapabilities(form=form, url=url) if asks else None,
        )

    def session_update(
        self, params: v2.UpdateSessionNotification, context: v2.ClientContext
    ) -> None:
        feed = self._event_streams.get(params.session_id)
        if feed is None:
            feed = self._services.event_stream(params.session_id, events_from_update)
        feed.receive(params.update, context.connection.message_bytes)

    async def request_permission(
        self, params: v2.RequestPermissionRequest, context: v2.ClientContext
    ) -> v2.RequestPermissionResponse:
        desk = self._services
        feed = desk.event_stream(params.session_id, events_from_update)
        setup = desk.find_setup(params.session_id)
        cwd = "/" if setup is None else setup.cwd
        call_id: str | None = None
        command: str | None = None
        match params.subject:
            case v2.ToolCallPermissionSubject(tool_call=details):
                call_id = details.tool_call_id
                call = apply_tool_call(details, feed.transcript)  # R-PERM-10
                if call is not None:
                    feed.publish(call)
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
        option = await desk.decide_permission(feed, request)
        outcome = (
            v2.CancelledPermissionOutcome()
            if option is None
            else v2.SelectedPermissionOutcome(option_id=option.id)
        )
        return v2.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(
        self, params: v2.CreateElicitationRequest, context: v2.ClientContext
    ) -> v2.CreateElicitationResponse:
        desk = self._services
        match params:
            case v2.ElicitationFormMode() if desk.on_elicit_form is not None:
                schema = to_builtins(params.requested_schema)
                form = form_from_schema(
                    params.message, schema, _id(params.session_id), params.tool_call_id
                )
                action, values = await desk.elicit_form(form)
                if action == "accept":
                    return v2.ElicitationAcceptAction(content=dict(values or {}))
            case v2.ElicitationUrlMode() if desk.on_elicit_url is not None:
                page = UrlElicitationRequest(
                    message=params.message,
                    url=params.url,
                    id=params.elicitation_id,
                    done=asyncio.Event(),
                    session_id=_id(params.session_id),
                    tool_call_id=params.tool_call_id,
                )
                action = await desk.elicit_url(page)
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
        self._services.complete_url(params.elicitation_id)

    # Beside sessions.

    def auth_status_update(
        self, params: v2.AuthStatusUpdateNotification, context: v2.ClientContext
    ) -> None:
        self._services.auth_status_changed(auth_status_from_wire(params))

    def extension_request(self, method: str, params: Any, context: v2.ClientContext) -> Any:
        return self._services.call_extension(method, params, is_request=True)

    def extension_notification(self, method: str, params: Any, context: v2.ClientContext) -> Any:
        return self._services.call_extension(method, params, is_request=False)


def _id(session_id: Any) -> str | None:
    return session_id if isinstance(session_id, str) else None
