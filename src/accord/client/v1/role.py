"""Answers an agent of version 1."""

from __future__ import annotations

import asyncio
from typing import Any

from accord import v1
from accord.client.elicitation import UrlElicitationRequest, form_from_schema
from accord.client.events import PermissionRequest, UnknownUpdate
from accord.client.services import ClientServices
from accord.client.terminals import ClientTerminals
from accord.client.v1.agent_adapter import auth_status_from_wire
from accord.client.v1.updates import apply_tool_call, events_from_update
from accord.errors import DecodeError, InvalidParams
from accord.rules.quirks import tolerates
from accord.text import lenient_json
from accord.types.permission import PermissionOption
from accord.types.session import Implementation
from accord.wire.base import replace
from accord.wire.codec import to_builtins

__all__ = ("ClientRoleV1",)


class ClientRoleV1(v1.ClientRole):
    """What this side serves."""

    def __init__(self, services: ClientServices, info: Implementation) -> None:
        self.info = v1.Implementation(name=info.name, version=info.version, title=info.title)
        self._services = services
        self._event_streams = services.event_streams

    def capabilities(self) -> v1.ClientCapabilities:
        options = v1.SessionConfigOptionsCapabilities(boolean=v1.BooleanConfigOptionCapabilities())
        session = v1.ClientSessionCapabilities(
            compaction=v1.CompactionCapabilities(),
            config_options=options,
            notices=v1.NoticeCapabilities(),
        )
        desk = self._services
        form = None if desk.on_elicit_form is None else v1.ElicitationFormCapabilities()
        url = None if desk.on_elicit_url is None else v1.ElicitationUrlCapabilities()
        asks = form is not None or url is not None
        offered = v1.ClientCapabilities(
            fs=v1.FileSystemCapabilities(
                read_text_file=desk.files.readable, write_text_file=desk.files.writable
            ),
            terminal=desk.terminals is not None,
            session=session,
            elicitation=v1.ElicitationCapabilities(form=form, url=url) if asks else None,
            subagents=v1.SubagentCapabilities() if desk.unstable else None,
            plan=v1.PlanCapabilities() if desk.unstable else None,
        )
        # Without it the key is left out, as with other offers.
        auth = v1.AuthCapabilities(terminal=True)
        return replace(offered, auth=auth) if desk.terminal_login else offered

    def advertises_capabilities(self) -> bool:
        """Notices, compactions and switches are not worth a second `initialize`."""
        return replace(self.capabilities(), session=None) != v1.ClientCapabilities()

    def session_update(self, params: v1.SessionNotification, context: v1.ClientContext) -> None:
        feed = self._event_streams.get(params.session_id)
        if feed is None:
            feed = self._services.event_stream(params.session_id, events_from_update)
        feed.receive(params.update, context.connection.message_bytes)

    @tolerates("unknown-updates")
    def on_undecodable_notification(self, method: str, params: Any, error: DecodeError) -> None:
        """Show an update that version 1 does not know as it came (A-30)."""
        if method != "session/update" or not lenient_json.is_object(params):
            return
        session_id = params.get("sessionId")
        feed = self._event_streams.get(session_id) if isinstance(session_id, str) else None
        if feed is not None:
            feed.publish(UnknownUpdate(params.get("update")))

    async def request_permission(
        self, params: v1.RequestPermissionRequest, context: v1.ClientContext
    ) -> v1.RequestPermissionResponse:
        feed = self._services.event_stream(params.session_id, events_from_update)
        call = apply_tool_call(params.tool_call, feed.transcript)  # R-PERM-06
        if call is not None:
            feed.publish(call)
        if feed.is_cancelling:  # R-PERM-03
            return v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())
        call = feed.transcript.tool_call(params.tool_call.tool_call_id)
        setup = self._services.find_setup(params.session_id)
        request = PermissionRequest(
            session_id=params.session_id,
            cwd="/" if setup is None else setup.cwd,
            title="" if call is None else call.title,
            options=tuple(PermissionOption(o.option_id, o.name, o.kind) for o in params.options),
            tool_call=call,
        )
        option = await self._services.decide_permission(feed, request)
        outcome = (
            v1.CancelledPermissionOutcome()
            if option is None
            else v1.SelectedPermissionOutcome(option_id=option.id)
        )
        return v1.RequestPermissionResponse(outcome=outcome)

    # Files and terminals.

    async def read_text_file(
        self, params: v1.ReadTextFileRequest, context: v1.ClientContext
    ) -> v1.ReadTextFileResponse:
        setup = self._services.session_setup(params.session_id)
        text = await self._services.files.read(setup, params.path, params.line, params.limit)
        return v1.ReadTextFileResponse(content=text)

    async def write_text_file(
        self, params: v1.WriteTextFileRequest, context: v1.ClientContext
    ) -> v1.WriteTextFileResponse:
        setup = self._services.session_setup(params.session_id)
        await self._services.files.write(setup, params.path, params.content)
        return v1.WriteTextFileResponse()

    def create_terminal(
        self, params: v1.CreateTerminalRequest, context: v1.ClientContext
    ) -> v1.CreateTerminalResponse:
        setup = self._services.session_setup(params.session_id)
        terminal_id = self._terminals.create(
            self._services.event_stream(params.session_id, events_from_update),
            [params.command, *params.args],
            params.cwd or setup.cwd,
            {variable.name: variable.value for variable in params.env},
            params.output_byte_limit,
        )
        return v1.CreateTerminalResponse(terminal_id=terminal_id)

    def terminal_output(
        self, params: v1.TerminalOutputRequest, context: v1.ClientContext
    ) -> v1.TerminalOutputResponse:
        text, truncated, ended = self._terminals.output(params.session_id, params.terminal_id)
        status = None if ended is None else v1.TerminalExitStatus(**_exit(*ended))
        return v1.TerminalOutputResponse(output=text, truncated=truncated, exit_status=status)

    async def wait_for_terminal_exit(
        self, params: v1.WaitForTerminalExitRequest, context: v1.ClientContext
    ) -> v1.WaitForTerminalExitResponse:
        ended = await self._terminals.wait(params.session_id, params.terminal_id)
        return v1.WaitForTerminalExitResponse(**_exit(*ended))

    async def kill_terminal(
        self, params: v1.KillTerminalRequest, context: v1.ClientContext
    ) -> v1.KillTerminalResponse:
        await self._terminals.kill(params.session_id, params.terminal_id)
        return v1.KillTerminalResponse()

    async def release_terminal(
        self, params: v1.ReleaseTerminalRequest, context: v1.ClientContext
    ) -> v1.ReleaseTerminalResponse:
        await self._terminals.release(params.session_id, params.terminal_id)
        return v1.ReleaseTerminalResponse()

    @property
    def _terminals(self) -> ClientTerminals:
        assert self._services.terminals is not None, "terminals were not offered"
        return self._services.terminals

    # Asking the user.

    async def create_elicitation(
        self, params: v1.CreateElicitationRequest, context: v1.ClientContext
    ) -> v1.CreateElicitationResponse:
        desk = self._services
        match params:
            case v1.ElicitationFormMode() if desk.on_elicit_form is not None:
                schema = to_builtins(params.requested_schema)
                form = form_from_schema(
                    params.message, schema, _id(params.session_id), params.tool_call_id
                )
                action, values = await desk.elicit_form(form)
                if action == "accept":
                    return v1.ElicitationAcceptAction(content=dict(values or {}))
            case v1.ElicitationUrlMode() if desk.on_elicit_url is not None:
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
                    return v1.ElicitationAcceptAction()
            case _:
                raise InvalidParams("This mode of elicitation was not offered")  # R-ELIC-03
        if action == "decline":
            return v1.ElicitationDeclineAction()
        return v1.ElicitationCancelAction()

    def complete_elicitation(
        self, params: v1.CompleteElicitationNotification, context: v1.ClientContext
    ) -> None:
        self._services.complete_url(params.elicitation_id)

    # Beside sessions.

    def auth_status_update(
        self, params: v1.AuthStatusUpdateNotification, context: v1.ClientContext
    ) -> None:
        self._services.auth_status_changed(auth_status_from_wire(params))

    def extension_request(self, method: str, params: Any, context: v1.ClientContext) -> Any:
        return self._services.call_extension(method, params, is_request=True)

    def extension_notification(self, method: str, params: Any, context: v1.ClientContext) -> Any:
        return self._services.call_extension(method, params, is_request=False)


def _id(session_id: Any) -> str | None:
    return session_id if isinstance(session_id, str) else None


def _exit(code: int | None, signal: str | None) -> dict[str, Any]:
    """Return an exit as v1 writes it, codes in 32 bits without a sign (A-51)."""
    return {"exit_code": None if code is None else code & 0xFFFFFFFF, "signal": signal}
