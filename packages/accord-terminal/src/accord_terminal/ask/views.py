"""What `accord ask` shows: messages for errors, and the views of a turn, except that for people.

`LazyView` chooses the view and imports what it needs when it is first used: `accord ask` starts the
agent before that, and imports `screen`, rich and Markdown only if they are shown. The other views
need no imports: the answer only (`--quiet`), JSON lines (`--json`), and the answer in a pipe.
"""

from __future__ import annotations

import base64
import io
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import msgspec
from msgspec import Struct

from accord.errors import AccordError, AuthRequired, RequestError, StartError
from accord.text.excerpt import hidden_removed, hidden_replaced
from accord.transports.process import LastLines
from accord_terminal.ask.options import AskOptions

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.elicitation import ElicitationForm, FormValues, UrlElicitationRequest
    from accord.client.events import Decision, Event, PermissionRequest
    from accord.client.session import ClientSession
    from accord.client.turn import ClientTurn
    from accord.types.session import StopReason
    from accord_terminal.ask.screen import RichView
    from accord_terminal.toolkit.questions import UserQuestions
    from accord_terminal.toolkit.terminal_output import TerminalWriter
    from accord_terminal.toolkit.text import Writer

# Messages for the errors that end `accord ask`.

MAX_LINES = 5  # of the agent's stderr, and of its stdout


class Failure(Struct, frozen=True):
    """The message for the user; `code` is that of a JSON-RPC error."""

    message: str
    code: int | None = None
    hint: str = ""


class _Run(Struct, frozen=True):
    """What the messages mention."""

    program: str
    auth_methods: Sequence[str]
    initialize_timeout_s: float


def _auth_required(error: AuthRequired, run: _Run) -> Failure:
    methods = f", by {' or '.join(run.auth_methods)}" if run.auth_methods else ""
    return Failure(f"{error.text}: log in to the agent first{methods}", error.code)


def _request_error(error: RequestError, _: _Run) -> Failure:
    return Failure(str(error), error.code)


def _start_error(error: StartError, _: _Run) -> Failure:
    return Failure(str(error), hint="`accord agents` lists the agents that have a name.")


def _accord_error(error: AccordError, _: _Run) -> Failure:
    return Failure(str(error))


def _timeout(_: TimeoutError, run: _Run) -> Failure:
    return Failure(
        f"{run.program} did not respond to `initialize` within {run.initialize_timeout_s:.0f} "
        "seconds"
    )


# The first row that matches describes an error.
_FAILURES: tuple[tuple[type[Exception], Callable[[Any, _Run], Failure]], ...] = (
    (AuthRequired, _auth_required),
    (RequestError, _request_error),
    (StartError, _start_error),
    (AccordError, _accord_error),
    (TimeoutError, _timeout),
)


def describe_failure(
    error: Exception, program: str, auth_methods: Sequence[str], initialize_timeout_s: float
) -> Failure | None:
    """Return the message for an error; None for an error of the operating system."""
    run = _Run(program, auth_methods, initialize_timeout_s)
    for kind, describe in _FAILURES:
        if isinstance(error, kind):
            return describe(error, run)
    return None


def stderr_lines(stderr: tuple[str, ...], message: str) -> tuple[str, ...]:
    """Return the last lines of stderr to show below a message; none if it has the only one."""
    last = stderr[-MAX_LINES:]
    return () if len(last) == 1 and last[0].strip() in message else last


def failure_lines(failure: Failure, output: LastLines, program: str = "accord ask") -> list[str]:
    """Return the report for stderr: the message, the output of the agent, the hint."""
    message = hidden_removed(failure.message)
    if failure.code is None and message.startswith(("Cannot ", "The ")):  # not the agent's words
        message = message[0].lower() + message[1:]
    lines = [f"{program}: {message}"]
    if output.stdout:
        lines.append("  on its stdout, which must contain only JSON:")
        lines += (f"    {line}" for line in output.stdout[-MAX_LINES:])
    if stderr := stderr_lines(output.stderr, failure.message):
        lines.append("  last lines of its stderr:")
        lines += (f"    {line}" for line in stderr)
    return [*lines, failure.hint] if failure.hint else lines


# The views.


class TurnView(Protocol):
    """Shows one turn."""

    def show_starting(self, name: str) -> None:
        """Show that the agent of this name is starting."""
        ...

    def session_opened(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Show the session."""
        ...

    def show_event(self, event: Event) -> None:
        """Show an event of the turn."""
        ...

    def show_stderr(self, line: str) -> None:
        """Show a line that the agent wrote to stderr."""
        ...

    def show_cancelling(self) -> None:
        """Show that the user has cancelled the turn."""
        ...

    def show_warning(self, message: str) -> None:
        """Show a warning of this program."""
        ...

    def user_quit(self, turn: ClientTurn | None) -> None:
        """Finish the output: the user does not wait for the end of the turn."""
        ...

    def turn_ended(self, turn: ClientTurn) -> None:
        """Finish the output of a turn that has ended."""
        ...

    def show_error(self, message: str, code: int | None) -> None:
        """Show that the run failed; `code` is that of a JSON-RPC error."""
        ...

    def close(self) -> None:
        """Finish the output and restore the terminal. May be called twice."""
        ...


class Typing(Protocol):
    """Reads lines while the turn runs."""

    def pause(self) -> None:
        """Leave the keyboard to a question."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...


class LazyView:
    """The view of a turn, and the questions to the user at a terminal."""

    def __init__(self, options: AskOptions) -> None:
        self._options = options
        self._view: TurnView | None = None
        self._questions: UserQuestions | None = None
        self._agent_name = "The agent"
        self._answered: list[str] = []  # by others, while a question was open
        self._stderr_line = ""  # the last one, if there was no view yet
        self.typing: Typing | None = None  # reads lines while no question is open
        self._open_questions = 0

    def show_typed(self, line: str | None) -> None:
        """Show the line that is being typed, if the view can; None if no line is read."""
        from accord_terminal.ask.screen import RichView

        view = self.get()
        if isinstance(view, RichView):
            view.show_typed(line)

    def show_said(self, line: str) -> None:
        """Show what the user has said in the turn, and the outcome."""
        from accord_terminal.ask.screen import RichView

        view = self.get()
        if isinstance(view, RichView):
            view.show_said(line)
        else:
            view.show_warning(line)

    @contextmanager
    def _asking(self) -> Generator[UserQuestions]:
        """Leave the keyboard to a question; then show what others have answered."""
        self._open_questions += 1
        if self.typing is not None:
            self.typing.pause()
        try:
            yield self._ask()
        finally:
            self._open_questions -= 1
            self._write_answered()
            if self.typing is not None and not self._open_questions:
                self.typing.resume()

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
        with self._asking() as questions:
            return await questions.ask_permission(request, self._agent_name)

    async def ask_form(self, form: ElicitationForm) -> FormValues | None:
        """Ask the user to fill in a form; None if the user declines."""
        with self._asking() as questions:
            return await questions.ask_form(form, self._agent_name)

    async def ask_url(self, page: UrlElicitationRequest) -> bool:
        """Ask the user to open a URL; return whether the user agrees."""
        with self._asking() as questions:
            return await questions.ask_url(page, self._agent_name)

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
        from accord_terminal.toolkit.questions import rejected_lines

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
            from accord_terminal.ask.screen import RichView
            from accord_terminal.toolkit.questions import UserQuestions

            view = self.get()
            assert isinstance(view, RichView)
            self._questions = UserQuestions(view.writer, view.pause_output)
        return self._questions


def _view(options: AskOptions) -> TurnView:
    if options.as_json:
        return JsonLinesView(options.program)
    if options.quiet:
        return AnswerOnlyView(options.program)
    return rich_view(thoughts=options.thoughts, verbose=options.verbose)


def rich_view(*, thoughts: bool = False, verbose: bool = False) -> RichView:
    """Return the view for people: on stdout if it is a terminal, else on stderr."""
    from accord_terminal.ask.screen import PipedAnswer, RichView

    out = sys.stdout or io.StringIO()  # None: closed before the program started
    if out.isatty():
        writer = _writer(out)
        return RichView(writer, LazyMarkdown(writer), thoughts=thoughts, verbose=verbose)

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
    from accord_terminal.toolkit.text import Row

    texts = [(line, line.lstrip(" ")) for line in lines]
    rows = [Row(text, "", line[: len(line) - len(text)]) for line, text in texts]
    writer.write_lines(writer.render_rows(rows))


def _writer(stream: TextIO) -> Writer:
    """Return the writer for a stream; only a terminal, or forced colours, need rich."""
    if stream.isatty() or os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE") == "1":
        from accord_terminal.toolkit.terminal_output import TerminalWriter

        return TerminalWriter(stream)
    from accord_terminal.toolkit.text import PlainWriter

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


class AnswerOnlyView:
    """Writes the text of the answer to stdout when the turn has ended."""

    def __init__(self, program: str) -> None:
        self._program = program

    def show_starting(self, name: str) -> None:
        """Write nothing."""

    def session_opened(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Write nothing."""

    def show_event(self, event: Event) -> None:
        """Write nothing."""

    def show_stderr(self, line: str) -> None:
        """Write nothing; a failure reports the last lines."""

    def show_cancelling(self) -> None:
        """Write it to stderr."""
        self.show_warning("cancelling; press Ctrl-C again to quit")

    def show_warning(self, message: str) -> None:
        """Write it to stderr."""
        print(f"{self._program}: {message}", file=sys.stderr, flush=True)

    def user_quit(self, turn: ClientTurn | None) -> None:
        """Write the answer so far."""
        if turn is not None:
            self.turn_ended(turn)

    def turn_ended(self, turn: ClientTurn) -> None:
        """Write the answer; at a terminal, without control characters."""
        text = turn.text if not sys.stdout.isatty() else hidden_removed(turn.text)
        if text:
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
            sys.stdout.flush()

    def show_error(self, message: str, code: int | None) -> None:
        """Write nothing; the caller reports the error on stderr."""

    def close(self) -> None:
        """Write nothing."""


# Omitted if empty.
_OMITTED_IF_EMPTY = frozenset({"annotations", "content_meta", "icons", "meta"})

_encode = msgspec.json.Encoder().encode


def event_name(event: type[Event]) -> str:
    """Return the value of the key `event` for events of this type."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event.__name__).lower()


def event_line(event: Event) -> dict[str, Any]:
    """Return an event as a JSON object: its fields, and its name in `event`."""
    return {"event": event_name(type(event)), **_plain(event)}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)  # it may be a subclass
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, RequestError):
        return {"code": value.code, "message": value.message, "data": _plain_or_none(value.data)}
    if isinstance(value, msgspec.Struct):
        fields = {
            key: _plain(item)
            for key in value.__struct_fields__
            if (item := getattr(value, key)) or key not in _OMITTED_IF_EMPTY
        }
        tag = value.__struct_config__.tag
        if tag == "resource" and not isinstance(getattr(value, "content", ""), str):
            tag = "blob"  # its content is base64
        return fields if tag is None else {"type": tag, **fields}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]  # JSON
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  # JSON
    raise NotImplementedError(f"{type(value).__name__} in an event")


def _plain_or_none(value: Any) -> Any:
    return None if value is msgspec.UNSET else _plain(value)


class JsonLinesView:
    """Writes one line to stdout for each event."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._is_over = False

    def show_starting(self, name: str) -> None:
        """Write nothing."""

    def session_opened(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Write the first line: the session and the agent."""
        info = {"name": agent.info.name, "version": agent.info.version}
        self._write(
            {
                "event": "session",
                "session_id": session.id,
                "agent": info,
                "protocol_version": agent.version,
                "options": {option.id: option.value for option in session.transcript.options},
            }
        )

    def show_event(self, event: Event) -> None:
        """Write an event."""
        self._write(event_line(event))

    def show_stderr(self, line: str) -> None:
        """Write nothing; a failure reports the last lines."""

    def show_cancelling(self) -> None:
        """Write it to stderr."""
        self.show_warning("cancelling; press Ctrl-C again to quit")

    def show_warning(self, message: str) -> None:
        """Write it to stderr."""
        print(f"{self._program}: {message}", file=sys.stderr, flush=True)

    def user_quit(self, turn: ClientTurn | None) -> None:
        """Write the last line, although the agent has not ended the turn."""
        if turn is None:
            self.show_error("Interrupted before there was a turn", None)
        else:
            self._write_end(turn, turn.stop_reason or "cancelled")

    def turn_ended(self, turn: ClientTurn) -> None:
        """Write the last line."""
        self._write_end(turn, turn.stop_reason)

    def _write_end(self, turn: ClientTurn, stop_reason: StopReason | None) -> None:
        end: dict[str, Any] = {
            "event": "end",
            "stop_reason": stop_reason,
            "text": turn.text,
            "token_usage": None if turn.token_usage is None else _plain(turn.token_usage),
        }
        if turn.spent is not None:  # with --budget
            end["spent"] = _plain(turn.spent)
            end["limit"] = None if turn.limit is None else _plain(turn.limit)
        self._write(end)
        self._is_over = True

    def show_error(self, message: str, code: int | None) -> None:
        """Write the error as the last line."""
        self._write({"event": "error", "message": message, "code": code})
        self._is_over = True

    def close(self) -> None:
        """Write nothing."""

    def _write(self, line: dict[str, Any]) -> None:
        if self._is_over:
            return
        sys.stdout.buffer.write(escape_hidden(_encode(line)) + b"\n")
        sys.stdout.buffer.flush()


def escape_hidden(line: bytes) -> bytes:
    """Return JSON with characters escaped that hide text: DEL, C1, directions, fillers."""
    if line.isascii() and b"\x7f" not in line:
        return line
    return hidden_replaced(line.decode(), _escape).encode()


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))
