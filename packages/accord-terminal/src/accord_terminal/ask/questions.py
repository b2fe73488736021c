"""What `accord ask` asks the user at the terminal: permissions, forms, URLs."""

from __future__ import annotations

import asyncio
import glob
import shlex
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from accord.client.permissions import allows, command_of
from accord.connection.tasks import is_being_cancelled
from accord.types.tool_calls import rule_error
from accord_terminal.toolkit.questions import (
    FormDeclined,
    ask_permission,
    discard_typed,
    fill_in_form,
    offer_url,
    read_line,
)
from accord_terminal.toolkit.text import Row, one_line, printable, relative_path, relative_title

if TYPE_CHECKING:
    from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
    from accord.client.events import Decision, PermissionRequest
    from accord_terminal.toolkit.text import Writer

# Asks the user at the terminal for permissions, forms and URLs, one at a time.

T = TypeVar("T")

# Nothing else is written while it is entered. The argument is the request that is shown, if any.
PauseOutput = Callable[["PermissionRequest | None"], AbstractContextManager[None]]


class UserQuestions:
    """Asks one question at a time, and pauses all other output during the question."""

    def __init__(self, writer: Writer, pause_output: PauseOutput) -> None:
        self._writer = writer
        self._pause_output = pause_output
        self._lock = asyncio.Lock()
        self._pending_answer: asyncio.Future[Any] | None = None  # to a form or URL

    @property
    def is_asking(self) -> bool:
        """Whether a question is open."""
        return self._lock.locked()

    async def ask_permission(self, request: PermissionRequest, agent_name: str) -> Decision | None:
        """Ask the user to decide a permission request."""
        async with self._lock:
            with self._pause_output(request):
                discard_typed()
                try:
                    return await ask_permission(request, agent_name, self._writer, self._read_line)
                except asyncio.CancelledError:
                    self._writer.write("\n")  # after the question
                    raise

    async def ask_form(self, form: ElicitationForm, agent_name: str) -> FormValues | None:
        """Ask the user to fill in a form; None if the user declines."""

        async def fill_in() -> FormValues | None:
            try:
                return await fill_in_form(form, agent_name, self._show_line, self._read_line)
            except FormDeclined as reason:
                self._show_line(f"  declined: {reason}", "yellow")
                return None

        return await self._ask_declinable(fill_in)

    async def ask_url(self, page: UrlElicitationRequest, agent_name: str) -> bool:
        """Ask the user to open a URL; return whether the user agrees."""
        agreed = await self._ask_declinable(
            lambda: offer_url(page, agent_name, self._show_line, self._read_line)
        )
        return agreed is True

    def decline(self) -> bool:
        """Decline the open form or URL; return whether one was open."""
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
                    self._writer.write("\n")  # after the question
                    if is_being_cancelled():
                        raise
                    self._show_line("  declined", "yellow")
                    return None
                finally:
                    self._pending_answer = None

    def _show_line(self, text: str, style: str = "") -> None:
        words = text.lstrip(" ")
        lead = text[: len(text) - len(words)]
        self._writer.write_lines(self._writer.render_rows([Row(printable(words), style, lead)]))

    async def _read_line(self, prompt: str) -> str | None:
        """Ask for a line; None at the end of the input."""
        self._writer.write(printable(prompt))
        line = await read_line()
        if not line.endswith("\n"):
            self._writer.write("\n")
        return line or None


# Reports which permission requests were rejected without asking, and how to allow them.

MAX_SHOWN = 5


def rejected_lines(
    requests: Sequence[PermissionRequest], reason: str, program: str = "accord ask"
) -> list[str]:
    """Return the report: the titles, and the options that would have allowed the actions."""
    lines = [f"{program}: rejected without asking the user: {reason}"]
    for request in requests[:MAX_SHOWN]:
        call = request.tool_call
        title = relative_title(request.title or (call.title if call else ""), request.cwd)
        lines.append(f"  {title}")
    if len(requests) > MAX_SHOWN:
        lines.append(f"  and {len(requests) - MAX_SHOWN} more")
    rules = dict.fromkeys(map(_narrowest_rule, requests[:MAX_SHOWN]))
    allowing = " ".join(f"--allow {shlex.quote(rule)}" for rule in rules)
    lines.append(f"  To allow it: {allowing}, or --yes for everything.")
    return lines


def _narrowest_rule(request: PermissionRequest) -> str:
    """Return the narrowest rule for `--allow` that matches a request."""
    call = request.tool_call
    command = command_of(request)
    kind = "execute" if call is None else one_line(str(call.kind), 40)
    # A rule is a pattern: the stars of a command or path are escaped.
    rules = [] if command is None else [f"execute:{glob.escape(one_line(command))}"]
    if call is not None and len(call.locations) == 1:
        path = relative_path(call.locations[0].path, request.cwd)
        rules.append(f"{kind}:{glob.escape(one_line(path))}")
    rules.append(kind)
    return next((rule for rule in rules if not rule_error([rule]) and allows(rule, request)), "*")
