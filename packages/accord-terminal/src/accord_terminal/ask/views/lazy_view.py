"""Chooses the view of a turn, and imports it when it is first used.

`accord ask` starts the agent before it imports a view, and imports rich and Markdown only for a
terminal. All imports of views are in this module.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from accord_terminal.ask.options import AskOptions

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
    from accord.client.events import Decision, PermissionRequest
    from accord.client.session import ClientSession
    from accord_terminal.ask.questions.user_questions import UserQuestions
    from accord_terminal.ask.screen.rich_screen import RichView
    from accord_terminal.ask.views.turn_view import TurnView
    from accord_terminal.toolkit.terminal_output import TerminalWriter
    from accord_terminal.toolkit.writer import Writer


class LazyView:
    """The view of a turn, and the questions to the user at a terminal."""

    def __init__(self, options: AskOptions) -> None:
        self._options = options
        self._view: TurnView | None = None
        self._questions: UserQuestions | None = None
        self._agent_name = "The agent"
        self._answered: list[str] = []  # by others, while a question was open
        self._stderr_line = ""  # the last one, if there was no view yet

    def get(self) -> TurnView:
        """Return the view."""
        if self._view is None:
            self._view = _view(self._options)
        return self._view

    def show_starting(self, name: str) -> None:
        """Show that the agent of this name is starting, and its last line of stderr."""
        self.get().show_starting(name)
        if self._stderr_line and not self._options.verbose:
            self.get().show_stderr(self._stderr_line)

    def show_stderr(self, line: str) -> None:
        """Show a line of stderr; if no view has been imported, remember it."""
        if self._view is not None or self._options.verbose:
            self.get().show_stderr(line)
        self._stderr_line = line

    def session_opened(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Show the session."""
        self._agent_name = agent.info.title or agent.info.name
        self.get().session_opened(agent, session)

    async def ask_permission(self, request: PermissionRequest) -> Decision | None:
        """Ask the user to decide a permission request."""
        try:
            return await self._ask().ask_permission(request, self._agent_name)
        finally:
            self._write_answered()

    async def ask_form(self, form: ElicitationForm) -> FormValues | None:
        """Ask the user to fill in a form; None if the user declines."""
        try:
            return await self._ask().ask_form(form, self._agent_name)
        finally:
            self._write_answered()

    async def ask_url(self, page: UrlElicitationRequest) -> bool:
        """Ask the user to open a URL; return whether the user agrees."""
        try:
            return await self._ask().ask_url(page, self._agent_name)
        finally:
            self._write_answered()

    def show_answered(self, line: str) -> None:
        """Show what another client has answered; after the open question, if there is one."""
        self._answered.append(line)
        self._write_answered()

    def _write_answered(self) -> None:
        if self._questions is not None and self._questions.is_asking:
            return
        for line in self._answered:
            self.get().show_warning(line)
        self._answered.clear()

    def decline_question(self) -> bool:
        """Decline the open form or URL; return whether one was open."""
        return self._questions is not None and self._questions.decline()

    def show_rejected(self, requests: Sequence[PermissionRequest]) -> None:
        """Report on stderr the permission requests that were rejected without asking the user."""
        if not requests:
            return
        from accord_terminal.ask.questions.rejected_permissions import rejected_lines

        reason = "no terminal is available to ask at"
        if self._options.as_json or self._options.quiet:
            reason = f"with {'--json' if self._options.as_json else '--quiet'} no one is asked"
        write_stderr(rejected_lines(requests, reason, self._options.program))

    def close(self) -> None:
        """Close the view, if it was used."""
        if self._view is not None:
            self._view.close()

    def _ask(self) -> UserQuestions:
        """Return the questions, which are asked only at a terminal and so only in the rich view."""
        if self._questions is None:
            from accord_terminal.ask.questions.user_questions import UserQuestions
            from accord_terminal.ask.screen.rich_screen import RichView

            view = self.get()
            assert isinstance(view, RichView)
            self._questions = UserQuestions(view.writer, view.pause_output)
        return self._questions


def _view(options: AskOptions) -> TurnView:
    if options.as_json:
        from accord_terminal.ask.views.json_lines import JsonLinesView

        return JsonLinesView(options.program)
    if options.quiet:
        from accord_terminal.ask.views.answer_only import AnswerOnlyView

        return AnswerOnlyView(options.program)
    return rich_view(thoughts=options.thoughts, verbose=options.verbose)


def rich_view(*, thoughts: bool = False, verbose: bool = False) -> RichView:
    """Return the view for people: on stdout if it is a terminal, else on stderr."""
    from accord_terminal.ask.screen.rich_screen import RichView

    out = sys.stdout or io.StringIO()  # None: closed before the program started
    if out.isatty():
        writer = _writer(out)
        return RichView(writer, LazyMarkdown(writer), thoughts=thoughts, verbose=verbose)
    from accord_terminal.ask.screen.piped_answer import PipedAnswer

    writer = _writer(sys.stderr or io.StringIO())
    return RichView(
        writer,
        LazyMarkdown(writer),
        PipedAnswer(out, writer.stream),
        thoughts=thoughts,
        verbose=verbose,
    )


def write_stderr(lines: Iterable[str]) -> None:
    """Write printable lines to stderr; a terminal folds them below their indentation."""
    writer = _writer(sys.stderr or io.StringIO())
    if not writer.is_terminal:
        writer.write_lines([*lines])
        return
    from accord_terminal.toolkit.rows import Row

    texts = [(line, line.lstrip(" ")) for line in lines]
    rows = [Row(text, "", line[: len(line) - len(text)]) for line, text in texts]
    writer.write_lines(writer.render_rows(rows))


def _writer(stream: TextIO) -> Writer:
    """Return the writer for a stream; only a terminal, or forced colours, need rich."""
    if stream.isatty() or os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE") == "1":
        from accord_terminal.toolkit.terminal_output import TerminalWriter

        return TerminalWriter(stream)
    from accord_terminal.toolkit.writer import PlainWriter

    return PlainWriter(stream)


class LazyMarkdown:
    """Renders Markdown for a writer; imports the renderer with the first text."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._terminal: TerminalWriter | None = None

    def finished_length(self, text: str) -> int:
        """Return how many characters of a text can no longer change, whatever follows."""
        from accord_terminal.toolkit.markdown import finished_length

        return finished_length(text)

    def lines(self, text: str) -> list[str]:
        """Return the lines of a text."""
        from accord_terminal.toolkit.markdown import markdown_lines
        from accord_terminal.toolkit.terminal_output import TerminalWriter

        if self._terminal is None:
            writer = self._writer
            is_one = isinstance(writer, TerminalWriter)
            self._terminal = writer if is_one else TerminalWriter(writer.stream)
        return markdown_lines(self._terminal, text, self._terminal.width)
