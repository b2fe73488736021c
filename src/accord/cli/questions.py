"""Asks the user at the terminal, one thing at a time: for a permission, a form, a page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from accord.cli.keyboard import forget_typed, typed_line
from accord.cli.rows import Row
from accord.cli.safe_text import printable
from accord.cli.terminal_output import Paper
from accord.connection.tasks import is_being_cancelled

if TYPE_CHECKING:
    from accord.client.elicitation import Form, Values, WebPage
    from accord.client.events import Decision, PermissionRequest

__all__ = ("Asking",)

T = TypeVar("T")

# While entered, nothing else is written; the request is what is shown, None for anything else.
Still = Callable[["PermissionRequest | None"], AbstractContextManager[None]]


class Asking:
    """Asks for the agent."""

    def __init__(self, paper: Paper, still: Still) -> None:
        self.agent = "The agent"
        self._paper = paper
        self._still = still
        self._lock = asyncio.Lock()  # the user is asked one thing at a time
        self._answering: asyncio.Future[Any] | None = None  # to what can be declined

    async def ask(self, request: PermissionRequest) -> Decision | None:
        """Let the user decide."""
        from accord.cli.permission import decide

        async with self._lock:
            with self._still(request):
                forget_typed()
                try:
                    return await decide(request, self.agent, self._paper, self._typed)
                except asyncio.CancelledError:
                    self._paper.write("\n")  # behind the question
                    raise

    async def fill_in(self, form: Form) -> Values | None:
        """Let the user fill in a form; None when they decline."""
        from accord.cli.forms import Refused, fill_in

        async def fill() -> Values | None:
            try:
                return await fill_in(form, self.agent, self._line, self._typed)
            except Refused as why:
                self._line(f"  declined: {why}", "yellow")
                return None

        return await self._declinable(fill)

    async def visit(self, page: WebPage) -> bool:
        """Let the user open a page, or not."""
        from accord.cli.forms import visit

        agreed = await self._declinable(lambda: visit(page, self.agent, self._line, self._typed))
        return agreed is True

    def decline(self) -> bool:
        """Decline what the user is asked just now; return whether there was something."""
        if self._answering is None:
            return False
        return self._answering.cancel()

    async def _declinable(self, answer: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        async with self._lock:
            with self._still(None):
                forget_typed()
                try:
                    self._answering = asyncio.ensure_future(answer())
                    return await self._answering
                except asyncio.CancelledError:
                    if is_being_cancelled():
                        raise
                    self._paper.write("\n")  # behind the question
                    self._line("  declined", "yellow")
                    return None
                finally:
                    self._answering = None

    def _line(self, text: str, style: str = "") -> None:
        words = text.lstrip(" ")
        lead = text[: len(text) - len(words)]
        self._paper.put(self._paper.rows([Row(printable(words), style, lead)]))

    async def _typed(self, prompt: str) -> str | None:
        """Ask for a line; None when no more can be typed."""
        self._paper.write(printable(prompt))
        line = await typed_line()
        if not line.endswith("\n"):
            self._paper.write("\n")
        return line or None
