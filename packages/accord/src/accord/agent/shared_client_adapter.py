"""Requests and notifications to the client that both versions send alike."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from accord.agent.client_adapter import ClientAdapter
from accord.agent.shared_updates import accounts_to_wire
from accord.errors import RequestError
from accord.text import lenient_json
from accord.types.session import AuthAccount, AuthState
from accord.wire.codec import convert

if TYPE_CHECKING:
    from accord.agent.version_types import VersionTypes
    from accord.mcp.consumer import McpOutcome
    from accord.wire.shared import MessageMcpRequest


class SharedClientAdapter(ClientAdapter):
    """Calls the client in either version; `types` is the package of the version."""

    def __init__(self, types: VersionTypes, context: Any) -> None:
        self._types = types
        self._context = context  # of `initialize`
        self._client = context.client

    async def flush_tool_content(self, session_id: str) -> None:
        """Send the content of tool calls that waits, as the next message may refer to it."""

    async def elicit_form(
        self, session_id: str, message: str, schema: dict[str, Any], tool_id: str | None
    ) -> dict[str, Any] | None:
        await self.flush_tool_content(session_id)
        form = self._types.ElicitationFormMode(
            message=message,
            session_id=session_id,
            tool_call_id=tool_id,
            requested_schema=convert(schema, self._types.ElicitationSchema),
        )
        answer = await self._client.create_elicitation(form)
        if isinstance(answer, self._types.ElicitationAcceptAction):
            return answer.content or {}
        return None  # R-ELIC-26, R-ELIC-34

    async def elicit_url(
        self, session_id: str, message: str, url: str, elicitation_id: str, tool_id: str | None
    ) -> bool:
        await self.flush_tool_content(session_id)
        page = self._types.ElicitationUrlMode(
            message=message,
            session_id=session_id,
            tool_call_id=tool_id,
            elicitation_id=elicitation_id,
            url=url,
        )
        answer = await self._client.create_elicitation(page)
        return isinstance(answer, self._types.ElicitationAcceptAction)

    async def complete_elicitation(self, elicitation_id: str) -> None:
        await self._client.complete_elicitation(
            self._types.CompleteElicitationNotification(elicitation_id=elicitation_id)
        )

    async def call_extension(self, method: str, params: Any) -> Any:
        await self._flush_tool_content_for(params)
        return await self._client.call_extension(method, params)

    async def notify_extension(self, method: str, params: Any) -> None:
        await self._flush_tool_content_for(params)
        await self._client.notify_extension(method, params)

    async def message_mcp(
        self, request: MessageMcpRequest, settled: Callable[[], None]
    ) -> McpOutcome:
        return await self._client.message_mcp(request, settled)

    async def _flush_tool_content_for(self, params: Any) -> None:
        session_id = params.get("sessionId") if lenient_json.is_object(params) else None
        if isinstance(session_id, str):
            await self.flush_tool_content(session_id)

    async def send_auth_status(self, state: AuthState, accounts: Sequence[AuthAccount]) -> None:
        if self._client.supports("auth_status_update"):
            await self._client.auth_status_update(
                self._types.AuthStatusUpdateNotification(
                    state=state, accounts=accounts_to_wire(self._types, accounts)
                )
            )

    def cancel_prompts(self, session_id: str) -> None:
        self._context.cancel_prompts(session_id)

    @property
    def is_closed(self) -> bool:
        return self._context.has_ended

    def is_clients_error(self, error: RequestError) -> bool:
        return error.origin is self._context.connection

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._context.start(work)
