"""Serves the requests of an agent of version 2."""

from __future__ import annotations

from accord import v2
from accord.client.event_stream import UpdateReader
from accord.client.events import PermissionRequest
from accord.client.shared_role import SharedClientRole
from accord.client.v2.updates import apply_tool_call, events_from_update


class ClientRoleV2(SharedClientRole, v2.ClientRole):
    """The client role of version 2."""

    types = v2
    events_from_update: UpdateReader = staticmethod(events_from_update)

    def capabilities(self) -> v2.ClientCapabilities:
        terminal = v2.TerminalAuthCapabilities() if self._handlers.terminal_login else None
        return v2.ClientCapabilities(
            auth=v2.ClientAuthCapabilities(terminal=terminal) if terminal else None,
            elicitation=self._elicitation_capabilities(),
        )

    async def request_permission(
        self, params: v2.RequestPermissionRequest, context: v2.ClientContext
    ) -> v2.RequestPermissionResponse:
        stream = self._stream(params.session_id)
        setup = self._handlers.find_setup(params.session_id)
        cwd = "/" if setup is None else setup.cwd
        call_id: str | None = None
        command: str | None = None
        match params.subject:
            case v2.ToolCallPermissionSubject(tool_call=details):
                call_id = details.tool_call_id
                # The request can change the tool call (R-PERM-10).
                call = apply_tool_call(details, stream.transcript)
                if call is not None:
                    stream.publish(call)
            case v2.CommandPermissionSubject():
                subject = params.subject
                call_id, command, cwd = subject.tool_call_id, subject.command, subject.cwd
            case _:
                pass  # a request without a known subject (R-PERM-09, R-PERM-13)
        request = PermissionRequest(
            session_id=params.session_id,
            cwd=cwd,
            title=params.title,
            options=self._permission_options(params.options),
            description=params.description,
            tool_call=None if call_id is None else stream.transcript.tool_call(call_id),
            command=command,
        )
        return await self._decide(stream, request)
