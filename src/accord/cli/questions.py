"""Asks the user at the terminal, one thing at a time: for a permission, a form, a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from accord.cli.keyboard import discard_typed, read_line
from accord.cli.rows import Row
from accord.cli.safe_text import printable
from accord.cli.terminal_output import TerminalWriter
from accord.connection.tasks import is_being_cancelled

if TYPE_CHECKING:
    from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
    from accord.client.events import Decision, PermissionRequest

__all__ = ("UserQuestions",)

T = TypeVar("T")

# While entered, nothing else is written; the request is what is shown, None for anything else.
PauseOutput = Callable[["PermissionRequest | None"], AbstractContextManager[None]]


class UserQuestions:
    """Asks for the agent."""

    def __init__(self, paper: TerminalWriter, still: PauseOutput) -> None:
        self.agent_name = "The agent"
        self._writer = paper
        self._pause_output = still
        self._lock = asyncio.Lock()  # the user is asked one thing at a time
        self._pending_answer: asyncio.Future[Any] | None = None  # to what can be declined

    async def ask_permission(self, request: PermissionRequest) -> Decision | None:
        """Let the user decide."""
        from accord.cli.permission import ask_permission

        async with self._lock:
            with self._pause_output(request):
                discard_typed()
                try:
                    return await ask_permission(
                        request, self.agent_name, self._writer, self._read_line
                    )
                except asyncio.CancelledError:
                    self._writer.write("\n")  # behind the question
                    raise

    async def ask_form(self, form: ElicitationForm) -> FormValues | None:
        """Let the user fill in a form; None when they decline."""
        from accord.cli.forms import FormDeclined, fill_in_form

        async def fill() -> FormValues | None:
            try:
                return await fill_in_form(form, self.agent_name, self._show_line, self._read_line)
            except FormDeclined as why:
                self._show_line(f"  declined: {why}", "yellow")
                return None

        return await self._ask_declinable(fill)

    async def ask_url(self, page: UrlElicitationRequest) -> bool:
        """Let the user open a page, or not."""
        from accord.cli.forms import offer_url

        agreed = await self._ask_declinable(
            lambda: offer_url(page, self.agent_name, self._show_line, self._read_line)
        )
        return agreed is True

    def decline_question(self) -> bool:
        """Decline what the user is asked just now; return whether there was something."""
        if self._pending_answer is None:
            return False
        return self._pending_answer.cancel()

    async def _ask_declinable(self, answer: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        async with self._lock:
            with self._pause_output(None):
                discard_typed()
                try:
                    self._pending_answer = asyncio.ensure_future(answer())
                    return await self._pending_answer
                except asyncio.CancelledError:
                    if is_being_cancelled():
                        raise
                    self._writer.write("\n")  # behind the question
                    self._show_line("  declined", "yellow")
                    return None
                finally:
                    self._pending_answer = None

    def _show_line(self, text: str, style: str = "") -> None:
        words = text.lstrip(" ")
        lead = text[: len(text) - len(words)]
        self._writer.write_lines(self._writer.render_rows([Row(printable(words), style, lead)]))

    async def _read_line(self, prompt: str) -> str | None:
        """Ask for a line; None when no more can be typed."""
        self._writer.write(printable(prompt))
        line = await read_line()
        if not line.endswith("\n"):
            self._writer.write("\n")
        return line or None
