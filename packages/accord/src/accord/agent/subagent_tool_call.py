"""Shows a subagent as a tool call, for clients that do not support subagents."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from accord.agent.client_adapter import ClientAdapter, PermissionQuestion
from accord.agent.updates import (
    MessageRole,
    MessageUpdate,
    ToolCallUpdate,
    ToolContentUpdate,
    Update,
)
from accord.errors import RequestError
from accord.types.content import ContentBlock
from accord.types.session import AuthAccount, AuthState, Implementation, SessionOption
from accord.types.tool_calls import Diff, TerminalView
from accord.version import ProtocolVersion

if TYPE_CHECKING:
    from accord.agent.session_core import SessionCore
    from accord.agent.tool_call import BaseToolCall


class SubagentToolCallAdapter(ClientAdapter):
    """The adapter of a subagent that is shown as a tool call of its parent."""

    def __init__(self, parent: SessionCore, call: BaseToolCall) -> None:
        adapter = parent.client_adapter
        self._adapter = adapter
        self._session_id = parent.id
        self._call = call
        self.version: ProtocolVersion = adapter.version
        self.capabilities: Any = adapter.capabilities
        self.client_info: Implementation | None = adapter.client_info
        self.cancelled_permission_cancels_turn: bool = adapter.cancelled_permission_cancels_turn
        self.reads_files: bool = adapter.reads_files
        self.writes_files: bool = adapter.writes_files
        self.has_terminals: bool = adapter.has_terminals
        self.shows_notices = False

    async def send_message_chunk(
        self,
        session_id: str,
        role: MessageRole,
        message_id: str,
        content: ContentBlock,
        meta: dict[str, Any] | None = None,
    ) -> None:
        if role != "agent":
            return
        if type(content) is str:
            await self._call.append_text(content)
        else:
            await self._call.add_content(content)

    async def send_update(
        self, session_id: str, update: Update, meta: dict[str, Any] | None = None
    ) -> None:
        match update:
            case MessageUpdate(role, message_id, content):
                for part in content:
                    await self.send_message_chunk(session_id, role, message_id, part)
            case ToolCallUpdate(is_new=True, title=str() as title):
                await self._call.append_text(f"\n{title}\n")
            case ToolContentUpdate(content=Diff() | TerminalView() as shown):
                await self._call.add_content(shown)
            case _:
                pass  # not meant primarily for the user

    async def request_permission(self, session_id: str, question: PermissionQuestion) -> str | None:
        call = self._call
        # With the kind, the paths and the raw input of what is asked about: clients decide by them.
        tool = replace(
            question.tool, id=call.id, title=call.title, status=call.status, content=UNSET
        )
        return await self._adapter.request_permission(
            self._session_id, replace(question, tool=tool)
        )

    async def read_file(
        self, session_id: str, path: str, line: int | None, limit: int | None
    ) -> str:
        return await self._adapter.read_file(self._session_id, path, line, limit)

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        await self._adapter.write_file(self._session_id, path, text)

    async def create_terminal(
        self,
        session_id: str,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        output_bytes: int,
    ) -> str:
        return await self._adapter.create_terminal(self._session_id, argv, cwd, env, output_bytes)

    async def terminal_exit(
        self, session_id: str, terminal_id: str
    ) -> tuple[int | None, str | None]:
        return await self._adapter.terminal_exit(self._session_id, terminal_id)

    async def terminal_output(self, session_id: str, terminal_id: str) -> tuple[str, bool]:
        return await self._adapter.terminal_output(self._session_id, terminal_id)

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._adapter.kill_terminal(self._session_id, terminal_id)

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._adapter.release_terminal(self._session_id, terminal_id)

    async def elicit_form(
        self, session_id: str, message: str, schema: dict[str, Any], tool_id: str | None
    ) -> dict[str, Any] | None:
        return await self._adapter.elicit_form(self._session_id, message, schema, self._call.id)

    async def elicit_url(
        self, session_id: str, message: str, url: str, elicitation_id: str, tool_id: str | None
    ) -> bool:
        return await self._adapter.elicit_url(
            self._session_id, message, url, elicitation_id, self._call.id
        )

    async def complete_elicitation(self, elicitation_id: str) -> None:
        await self._adapter.complete_elicitation(elicitation_id)

    async def call_extension(self, method: str, params: Any) -> Any:
        return await self._adapter.call_extension(method, params)

    async def notify_extension(self, method: str, params: Any) -> None:
        await self._adapter.notify_extension(method, params)

    async def send_auth_status(self, state: AuthState, accounts: Sequence[AuthAccount]) -> None:
        await self._adapter.send_auth_status(state, accounts)

    def cancel_prompts(self, session_id: str) -> None:
        """Do nothing: a subagent has no prompts."""

    @property
    def is_closed(self) -> bool:
        return self._adapter.is_closed

    def is_clients_error(self, error: RequestError) -> bool:
        return self._adapter.is_clients_error(error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._adapter.spawn(work)

    def displayable_options(self, options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
        return self._adapter.displayable_options(options)
