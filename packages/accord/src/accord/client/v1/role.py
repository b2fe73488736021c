"""Serves the requests of an agent of version 1."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from accord import v1
from accord.client.event_stream import UpdateReader
from accord.client.events import PermissionRequest, UnknownUpdate
from accord.client.shared_role import SharedClientRole
from accord.client.terminals import ClientTerminals
from accord.client.v1.updates import apply_tool_call, events_from_update
from accord.connection.tasks import Owning
from accord.errors import DecodeError
from accord.rules.quirks import tolerates
from accord.text import lenient_json
from accord.wire.base import replace


class ClientRoleV1(SharedClientRole, v1.ClientRole):
    """The client role of version 1."""

    types = v1
    events_from_update: UpdateReader = staticmethod(events_from_update)

    def capabilities(self) -> v1.ClientCapabilities:
        options = v1.SessionConfigOptionsCapabilities(boolean=v1.BooleanConfigOptionCapabilities())
        session = v1.ClientSessionCapabilities(
            compaction=v1.CompactionCapabilities(),
            config_options=options,
            notices=v1.NoticeCapabilities(),
        )
        handlers = self._handlers
        capabilities = v1.ClientCapabilities(
            fs=v1.FileSystemCapabilities(
                read_text_file=handlers.files.readable, write_text_file=handlers.files.writable
            ),
            terminal=handlers.terminals is not None,
            session=session,
            elicitation=self._elicitation_capabilities(),
            subagents=v1.SubagentCapabilities() if handlers.unstable else None,
            plan=v1.PlanCapabilities() if handlers.unstable else None,
        )
        if not handlers.terminal_login:
            return capabilities  # the key `auth` is omitted, like those of other capabilities
        return replace(capabilities, auth=v1.AuthCapabilities(terminal=True))

    def advertises_capabilities(self) -> bool:
        """Notices, compactions and boolean options are not worth a second `initialize`."""
        return replace(self.capabilities(), session=None) != v1.ClientCapabilities()

    @tolerates("unknown-updates")
    def on_undecodable_notification(self, method: str, params: Any, error: DecodeError) -> None:
        """Publish an update of a type that version 1 does not define, as sent (A-30)."""
        if method != "session/update" or not lenient_json.is_object(params):
            return
        session_id = params.get("sessionId")
        stream = self._event_streams.get(session_id) if isinstance(session_id, str) else None
        if stream is not None:
            stream.publish(UnknownUpdate(params.get("update")))

    async def request_permission(
        self, params: v1.RequestPermissionRequest, context: v1.ClientContext
    ) -> v1.RequestPermissionResponse:
        stream = self._stream(params.session_id)
        # The request can change the tool call (R-PERM-06).
        call = apply_tool_call(params.tool_call, stream.transcript)
        if call is not None:
            stream.publish(call)
        if stream.is_cancelling:  # then the response is the outcome `cancelled` (R-PERM-03)
            return v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())
        call = stream.transcript.tool_call(params.tool_call.tool_call_id)
        setup = self._handlers.find_setup(params.session_id)
        request = PermissionRequest(
            session_id=params.session_id,
            cwd="/" if setup is None else setup.cwd,
            title="" if call is None else call.title,
            options=self._permission_options(params.options),
            tool_call=call,
        )
        return await self._decide(stream, request)

    # Files and terminals.

    def read_text_file(
        self, params: v1.ReadTextFileRequest, context: v1.ClientContext
    ) -> v1.ReadTextFileResponse | Awaitable[v1.ReadTextFileResponse]:
        setup = self._handlers.session_setup(params.session_id)
        text = self._handlers.files.read(setup, params.path, params.line, params.limit)
        if isinstance(text, str):
            return v1.ReadTextFileResponse(content=text)
        return Owning(_file(text), text)

    async def write_text_file(
        self, params: v1.WriteTextFileRequest, context: v1.ClientContext
    ) -> v1.WriteTextFileResponse:
        setup = self._handlers.session_setup(params.session_id)
        await self._handlers.files.write(setup, params.path, params.content)
        return v1.WriteTextFileResponse()

    def create_terminal(
        self, params: v1.CreateTerminalRequest, context: v1.ClientContext
    ) -> v1.CreateTerminalResponse:
        setup = self._handlers.session_setup(params.session_id)
        terminal_id = self._terminals.create(
            self._stream(params.session_id),
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
        assert self._handlers.terminals is not None, "terminals were not offered"
        return self._handlers.terminals


async def _file(text: Awaitable[str]) -> v1.ReadTextFileResponse:
    return v1.ReadTextFileResponse(content=await text)


def _exit(code: int | None, signal: str | None) -> dict[str, Any]:
    """Return an exit as v1 writes it, codes in 32 bits without a sign (A-51)."""
    return {"exit_code": None if code is None else code & 0xFFFFFFFF, "signal": signal}
