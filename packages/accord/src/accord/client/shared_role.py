"""Serves the requests of an agent that both versions write alike."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from accord.client.agent_adapter import auth_status_from_wire
from accord.client.elicitation import UrlElicitationRequest, form_from_schema
from accord.client.event_stream import MessageText, SessionEventStream, UpdateReader
from accord.client.events import PermissionRequest
from accord.client.handlers import ClientHandlers
from accord.errors import InvalidParams
from accord.types.permission import PermissionOption
from accord.types.session import Implementation
from accord.wire.codec import to_builtins


class SharedClientRole:
    """The half of the client role that does not depend on the version.

    A subclass derives from this class and from `ClientRole` of its version, in this order.
    """

    types: ClassVar[Any]  # the package of the version
    events_from_update: UpdateReader

    def __init__(self, handlers: ClientHandlers, info: Implementation) -> None:
        self.info: Any = self.types.Implementation(
            name=info.name, version=info.version, title=info.title
        )
        self._handlers = handlers
        self._event_streams = handlers.event_streams

    def _stream(self, session_id: str) -> SessionEventStream:
        return self._handlers.event_stream(session_id, self.events_from_update)

    def session_update(self, params: Any, context: Any) -> None:
        stream = self._event_streams.get(params.session_id)
        if stream is None:
            stream = self._stream(params.session_id)
        connection = context.connection
        text = stream.receive(params.update, connection.message_bytes)
        if text is not None:
            connection.streamed_text.offered = MessageText(stream, text, self.events_from_update)

    # Asking the user.

    def _elicitation_capabilities(self) -> Any:
        types, handlers = self.types, self._handlers
        form = None if handlers.on_elicit_form is None else types.ElicitationFormCapabilities()
        url = None if handlers.on_elicit_url is None else types.ElicitationUrlCapabilities()
        if form is None and url is None:
            return None
        return types.ElicitationCapabilities(form=form, url=url)

    def _permission_options(self, options: list[Any]) -> tuple[PermissionOption, ...]:
        return tuple(PermissionOption(o.option_id, o.name, o.kind) for o in options)

    async def _decide(self, stream: SessionEventStream, request: PermissionRequest) -> Any:
        """Return the response to a permission request."""
        types = self.types
        option = await self._handlers.decide_permission(stream, request)
        outcome = (
            types.CancelledPermissionOutcome()
            if option is None
            else types.SelectedPermissionOutcome(option_id=option.id)
        )
        return types.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, params: Any, context: Any) -> Any:
        types, handlers = self.types, self._handlers
        session_id = getattr(params, "session_id", None)  # a mode of an unknown type has none
        session_id = session_id if isinstance(session_id, str) else None
        match params:
            case types.ElicitationFormMode() if handlers.on_elicit_form is not None:
                schema = to_builtins(params.requested_schema)
                form = form_from_schema(params.message, schema, session_id, params.tool_call_id)
                action, values = await handlers.elicit_form(form)
                if action == "accept":
                    return types.ElicitationAcceptAction(content=dict(values or {}))
            case types.ElicitationUrlMode() if handlers.on_elicit_url is not None:
                request = UrlElicitationRequest(
                    message=params.message,
                    url=params.url,
                    id=params.elicitation_id,
                    done=asyncio.Event(),
                    session_id=session_id,
                    tool_call_id=params.tool_call_id,
                )
                action = await handlers.elicit_url(request)
                if action == "accept":
                    return types.ElicitationAcceptAction()
            case _:
                # The capability of this mode was not advertised (R-ELIC-03).
                raise InvalidParams("The client does not support this elicitation mode")
        if action == "decline":
            return types.ElicitationDeclineAction()
        return types.ElicitationCancelAction()

    def complete_elicitation(self, params: Any, context: Any) -> None:
        self._handlers.complete_url(params.elicitation_id)

    # Outside sessions.

    def auth_status_update(self, params: Any, context: Any) -> None:
        self._handlers.auth_status_changed(auth_status_from_wire(params))

    async def message_mcp(self, params: Any, context: Any) -> Any:
        return await self._handlers.tools.request(params, context.agent.notify_mcp)

    def on_unknown_method(self, method: str) -> None:
        self._handlers.tools.unknown_method(method)

    def extension_request(self, method: str, params: Any, context: Any) -> Any:
        return self._handlers.call_extension(method, params, is_request=True)

    def extension_notification(self, method: str, params: Any, context: Any) -> Any:
        return self._handlers.call_extension(method, params, is_request=False)
