"""What a subagent says and asks, in a tool call: for clients that show no subagents."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from accord.agent.client_adapter import Link, Question
from accord.agent.updates import MessageRole, Report, Said, ToolPart, ToolReport
from accord.errors import RequestError
from accord.types.auth import Account, LoginState
from accord.types.content import Content
from accord.types.session import SessionOption
from accord.types.tool_calls import Diff, TerminalView

if TYPE_CHECKING:
    from accord.agent.session import Session
    from accord.agent.tool_call import ToolCall

__all__ = ("InCall",)


class InCall(Link):
    """The client, as a subagent speaks to it that is shown as a tool call of its parent."""

    def __init__(self, parent: Session, call: ToolCall) -> None:
        link = parent.link
        self._link = link
        self._session_id = parent.id
        self._call = call
        self.version = link.version
        self.capabilities = link.capabilities
        self.client_info = link.client_info
        self.unanswered_cancels = link.unanswered_cancels
        self.reads_files = link.reads_files
        self.writes_files = link.writes_files
        self.has_terminals = link.has_terminals
        self.shows_notices = False

    async def said(
        self,
        session_id: str,
        role: MessageRole,
        message_id: str,
        content: Content,
        meta: dict[str, Any] | None = None,
    ) -> None:
        if role != "agent":
            return
        if type(content) is str:
            await self._call.stream(content)
        else:
            await self._call.content(content)

    async def show(self, session_id: str, report: Report) -> None:
        match report:
            case Said(role, message_id, content):
                for part in content:
                    await self.said(session_id, role, message_id, part)
            case ToolReport(begins=True, title=str() as title):
                await self._call.stream(f"\n{title}\n")
            case ToolPart(content=Diff() | TerminalView() as shown):
                await self._call.content(shown)
            case _:
                pass  # what is not for the user's eyes first

    async def ask(self, session_id: str, question: Question) -> str | None:
        call = self._call
        tool = ToolReport(id=call.id, title=call.title, kind=call.kind, status=call.status)
        raw_input = question.tool.raw_input
        if raw_input is not UNSET:
            tool = replace(tool, raw_input=raw_input)
        return await self._link.ask(self._session_id, replace(question, tool=tool))

    async def read_file(
        self, session_id: str, path: str, line: int | None, limit: int | None
    ) -> str:
        return await self._link.read_file(self._session_id, path, line, limit)

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        await self._link.write_file(self._session_id, path, text)

    async def create_terminal(
        self,
        session_id: str,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        output_bytes: int,
    ) -> str:
        return await self._link.create_terminal(self._session_id, argv, cwd, env, output_bytes)

    async def terminal_exit(
        self, session_id: str, terminal_id: str
    ) -> tuple[int | None, str | None]:
        return await self._link.terminal_exit(self._session_id, terminal_id)

    async def terminal_output(self, session_id: str, terminal_id: str) -> tuple[str, bool]:
        return await self._link.terminal_output(self._session_id, terminal_id)

    async def kill_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._link.kill_terminal(self._session_id, terminal_id)

    async def release_terminal(self, session_id: str, terminal_id: str) -> None:
        await self._link.release_terminal(self._session_id, terminal_id)

    async def elicit_form(
        self, session_id: str, message: str, schema: dict[str, Any], tool_id: str | None
    ) -> dict[str, Any] | None:
        return await self._link.elicit_form(self._session_id, message, schema, self._call.id)

    async def elicit_url(
        self, session_id: str, message: str, url: str, elicitation_id: str, tool_id: str | None
    ) -> bool:
        return await self._link.elicit_url(
            self._session_id, message, url, elicitation_id, self._call.id
        )

    async def elicited(self, elicitation_id: str) -> None:
        await self._link.elicited(elicitation_id)

    async def call_extension(self, method: str, params: Any) -> Any:
        return await self._link.call_extension(method, params)

    async def notify_extension(self, method: str, params: Any) -> None:
        await self._link.notify_extension(method, params)

    async def logged_in(self, state: LoginState, accounts: Sequence[Account]) -> None:
        await self._link.logged_in(state, accounts)

    def withdraw(self, session_id: str) -> None:
        """It has no prompts."""

    @property
    def is_gone(self) -> bool:
        return self._link.is_gone

    def sent(self, error: RequestError) -> bool:
        return self._link.sent(error)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._link.start(work)

    def shown(self, options: tuple[SessionOption, ...]) -> tuple[SessionOption, ...]:
        return self._link.shown(options)
