"""`accord ask` for people: Markdown, tool calls, diffs, the plan, and a spinner.

First the summary of a turn, then the live region at the bottom of the terminal, and the view.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from accord.client.events import (
    AgentTerminal,
    Compaction,
    ContentChunk,
    Event,
    MessageReplaced,
    Notice,
    PermissionRequest,
    Plan,
    Subagent,
    TerminalOutputChunk,
    Text,
    Thought,
    ToolCall,
)
from accord.client.transcript import TerminalTranscript, Transcript
from accord.types.content import AudioContent, ContentBlock, ImageContent, text_of
from accord.types.session import SelectOption, TokenUsage
from accord.types.tool_calls import Diff
from accord_terminal.toolkit.text import (
    Row,
    Writer,
    one_line,
    printable,
    relative_path,
)
from accord_terminal.toolkit.tool_rows import (
    diffs_of,
    limited_diff_rows,
    lines_before_diff,
    output_rows,
    plan_rows,
    terminal_ids,
    terminal_rows,
    title_rows,
)

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.session import ClientSession
    from accord.client.turn import ClientTurn

# The summary line of a turn.


def summary_line(
    transcript: Transcript, tokens: TokenUsage | None, session_id: str, elapsed_s: float
) -> str:
    """Return the summary line, without unknown values."""
    session = one_line(session_id, 100)
    if not session.startswith("session"):
        session = f"session {session}"
    parts = [_model_name(transcript), session]
    if tokens is not None:
        parts.append(f"{tokens.total:,} tokens ({tokens.input:,} in, {tokens.output:,} out)")
    usage = transcript.usage
    if usage is not None and usage.size > 0:
        parts.append(f"context {100 * usage.used / usage.size:.0f}% full")
    if usage is not None and usage.cost is not None:
        parts.append(f"{usage.cost.amount:.2f} {one_line(usage.cost.currency, 10)}")
    parts.append(_format_time(elapsed_s))
    return " · ".join(part for part in parts if part)


def _model_name(transcript: Transcript) -> str:
    for option in transcript.options:
        if isinstance(option, SelectOption) and "model" in (option.category, option.id):
            names = {choice.value: choice.name for choice in option.choices}
            return one_line(names.get(option.value, option.value), 60)
    return ""


def _format_time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s"


# The lines below the permanent output: unfinished text, running tool calls, plan, spinner.

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LIVE_LINES = 8  # of a running tool call
PLAN_LINES = 8
MAX_MARKDOWN_CHARACTERS = 8 * 1024  # a longer unfinished block is shown as plain text
SPACIOUS_LINES = 14  # a terminal with fewer lines gets no blank lines


class LiveRegion:
    """Renders the lines that the next write replaces."""

    def __init__(self, writer: Writer, markdown_lines: Callable[[str], list[str]]) -> None:
        self.activity = "working"
        self.stderr_hint = ""  # the agent's last line of stderr
        self.typed: str | None = None  # what the user types
        self._writer = writer
        self._markdown_lines = markdown_lines
        self._started_s = time.monotonic()

    def render(
        self, text: str, thought: str, running: Sequence[Sequence[Row]], plans: Sequence[Plan]
    ) -> list[str]:
        """Return the lines; there are fewer than the terminal has."""
        writer = self._writer
        room = max(writer.size[1] - 2, 1)
        status = [self._status_line(thought)]
        if self.typed is not None:
            shown = f"› {printable(self.typed)}"[-(writer.width - 1) :]
            status += writer.render_rows([Row(writer.cut_line(shown), "bold")])[:1]
        planned: list[str] = []
        for plan in plans:
            if plan.markdown is None:
                planned += writer.render_rows(plan_rows(plan, PLAN_LINES))
        calls: list[str] = []
        for rows in running:
            lines = writer.render_rows(rows)
            calls += lines if len(lines) <= LIVE_LINES else [lines[0], *lines[1 - LIVE_LINES :]]
        left = room - len(status)
        planned = planned[: left // 2]
        left -= len(planned)
        calls = calls[-max(left - 3, 1) :] if left > 1 else []
        left -= len(calls)
        text_lines = self._text_lines(text)
        text_lines = text_lines[-left:] if left > 0 else []
        sections = [section for section in (text_lines, calls, planned, status) if section]
        blank = [""] if room >= SPACIOUS_LINES else []
        drawn = list(blank) if sections[0] is not status or room >= SPACIOUS_LINES else []
        for number, section in enumerate(sections):
            drawn += [*(blank if number else []), *section]
        return drawn[-room:]

    def _text_lines(self, text: str) -> list[str]:
        if not text.strip():
            return []
        writer = self._writer
        if len(text) > MAX_MARKDOWN_CHARACTERS:
            return writer.fold_text(text[-MAX_MARKDOWN_CHARACTERS:], writer.width)
        return self._markdown_lines(text)

    def _status_line(self, thought: str) -> str:
        passed_s = time.monotonic() - self._started_s
        frame = FRAMES[int(passed_s * 10) % len(FRAMES)]
        doing = self.activity
        if self.stderr_hint:
            doing = f"{doing} · {self.stderr_hint}"
        elif thought.strip():
            last = one_line(printable(thought[-400:]).strip().rpartition("\n")[2])
            doing = f"thinking · {last}"
        line = f"{frame} {int(passed_s)}s {doing}"
        return self._writer.render_rows([Row(self._writer.cut_line(line), "dim")])[0]


TICK_S = 0.1
SEVERITIES = {"error": "red", "warning": "yellow"}


class MarkdownRenderer(Protocol):
    """Renders Markdown for the writer of a view."""

    def finished_length(self, text: str) -> int:
        """Return how many characters of a text can no longer change, whatever follows."""
        ...

    def lines(self, text: str) -> list[str]:
        """Return the lines of a text."""
        ...


class RichView:
    """Shows a turn through a writer; with `piped_answer`, the answer goes there instead.

    Finished output is written once and never changed. Unfinished output is in the live region
    below it.
    """

    def __init__(
        self,
        writer: Writer,
        markdown: MarkdownRenderer,
        piped_answer: PipedAnswer | None = None,
        *,
        thoughts: bool = False,
        verbose: bool = False,
    ) -> None:
        self.writer = writer
        self._markdown = markdown
        self._piped_answer = piped_answer
        # The reader of a pipe may write to our terminal; the cursor must not be moved then.
        self._shares_terminal = piped_answer is not None and _is_pipe(piped_answer.stream)
        self._show_thoughts = thoughts
        self._verbose = verbose
        self._transcript: Transcript | None = None
        self._cwd: str | None = None
        self._session_id = ""
        self._live_region = LiveRegion(writer, markdown.lines)
        self._lines: list[str] = []  # finished, not yet written
        self._last_kind = ""  # of the last finished line
        self._unfinished_text = ""  # of the current message
        self._message_text = ""  # all of the current message so far
        self._unfinished_thought = ""
        self._message_id: str | None = None
        self._plans: dict[str | None, Plan] = {}
        self._open_calls: dict[str, ToolCall] = {}
        self._written_calls: dict[str, ToolCall] = {}
        self._calls_during_plan: set[str] = set()  # ids of calls that were open at a plan update
        self._written_diffs: dict[str, set[Diff]] = {}  # by tool call
        self._active_terminals: set[str] = set()  # ids of terminals with output
        self._terminals_in_calls: set[str] = set()  # ids of terminals that tool calls show
        self._started_s = time.monotonic()
        self._is_cancelling = False
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._write_error: OSError | None = None
        self._held_events: list[Event] | None = None  # received while output is paused

    def show_starting(self, name: str) -> None:
        """Show a spinner from now on."""
        self._live_region.activity = f"starting {one_line(name)}"
        self._start_refreshing()

    def session_opened(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Show the session."""
        self._is_over = False  # a login at the terminal had closed the view
        self._live_region.activity = "working"
        self._transcript = session.transcript
        self._cwd = session.cwd
        self._session_id = session.id
        self._started_s = time.monotonic()
        if self._verbose:
            title = agent.info.title or agent.info.name
            name = one_line(f"{title} {agent.info.version}")
            self._write_rows([Row(f"{name}, protocol version {agent.version}", "dim")], "note")
        self._start_refreshing()

    def show_event(self, event: Event) -> None:
        """Show an event of the turn."""
        if self._write_error is not None:
            raise self._write_error
        if self._is_over:
            return
        if self._held_events is not None:
            self._held_events.append(event)
            return
        self._live_region.stderr_hint = ""
        match event:
            case Text(text, message_id):
                self._add_text(text, message_id)
            case Thought(text):
                self._add_thought(text)
            case ContentChunk(content=content, role="agent", message_id=message_id):
                self._add_text(_placeholder(content), message_id)
            case MessageReplaced(role="agent", content=contents, message_id=message_id):
                self._replace_message("".join(map(_placeholder, contents)), message_id)
            case ToolCall():
                self._show_tool_call(event)
            case AgentTerminal(id=terminal_id) | TerminalOutputChunk(id=terminal_id):
                self._active_terminals.add(terminal_id)
            case Plan():
                self._plans[event.id] = event
                self._calls_during_plan.update(self._open_calls)
                if event.removed:
                    del self._plans[event.id]
            case Notice():
                self._notice(event)
            case Subagent(title=title, state=state) if state and state.state != "running":
                self._note(f"[{title or event.id}: {state.state}]")
            case Compaction(status=status, error=error) if status != "in_progress":
                self._note(f"[memory: {status}{': ' if error else ''}{error or ''}]")
            case _:
                pass
        if not self.writer.has_live_region:
            self.refresh()

    def show_stderr(self, line: str) -> None:
        """Show a line of stderr next to the spinner, or permanently if verbose."""
        if not self._verbose:
            self._live_region.stderr_hint = f"stderr: {one_line(line)}"
        else:
            self._write_rows(
                [Row(printable(line), "dim", "stderr │ ", "       │ ", "dim")], "stderr"
            )

    def show_cancelling(self) -> None:
        """Show that the user has cancelled the turn."""
        self._is_cancelling = True
        self._live_region.activity = "cancelling · press Ctrl-C again to quit"
        if not self.writer.has_live_region:
            self._write_rows([Row("Cancelling. Press Ctrl-C again to quit.", "yellow")], "note")
        self.refresh()

    def show_typed(self, line: str | None) -> None:
        """Show the line that the user types while the agent works."""
        self._live_region.typed = line
        if self.writer.has_live_region and not self._is_over:
            self.refresh()

    def show_said(self, line: str) -> None:
        """Show what the user has said, below what the agent has said before."""
        if self._piped_answer is None and self._held_events is None:
            self._flush()
        self._write_rows([Row(line, "bold")], "note")

    def show_warning(self, message: str) -> None:
        """Show a warning of this program."""
        self._write_rows([Row(message, "yellow")], "note")

    def user_quit(self, turn: ClientTurn | None) -> None:
        """Write unfinished output; the agent has not ended the turn."""
        self._write_unfinished()
        if turn is not None:
            self._write_rows([Row("[cancelled]", "yellow")], "note")
        self._finish_output()
        self._is_over = True

    def turn_ended(self, turn: ClientTurn) -> None:
        """Write unfinished output, the stop reason and the summary line."""
        self._write_unfinished()
        if turn.stop_reason != "end_turn":
            self._write_rows([Row(f"[{one_line(str(turn.stop_reason))}]", "yellow")], "note")
        if self._transcript is not None and (self.writer.is_terminal or self._verbose):
            elapsed_s = time.monotonic() - self._started_s
            line = summary_line(self._transcript, turn.token_usage, self._session_id, elapsed_s)
            self._write_rows([Row(line, "dim")], "last")
        self._finish_output()

    def show_error(self, message: str, code: int | None) -> None:
        """Write unfinished output; the caller reports the error on stderr."""
        self.close()

    def close(self) -> None:
        """Write unfinished output and restore the terminal."""
        self._is_over = True
        self._write_unfinished()
        self._finish_output()

    def refresh(self) -> None:
        """Write finished output and redraw the live region."""
        if self._held_events is not None:
            return
        if self._unfinished_text and self._piped_answer is None:
            end = self._markdown.finished_length(self._unfinished_text)
            self._write_text(self._unfinished_text[:end])
            self._unfinished_text = self._unfinished_text[end:]
        lines, self._lines = self._lines, []
        self.writer.write_lines(lines, self._live_lines() if self.writer.has_live_region else ())

    def _write_unfinished(self) -> None:
        """Write all unfinished output as it is."""
        self._show_held_events()
        self._flush()
        for call in list(self._open_calls.values()):
            self._write_call(call)
        for terminal_id in sorted(self._active_terminals - self._terminals_in_calls):
            for shell in self._terminals([terminal_id]):
                command = one_line(shell.terminal.command or shell.terminal.id)
                self._write_rows([Row(command, "bold", "$ "), *terminal_rows(shell)], "tool")
        self._active_terminals.clear()
        for plan in self._plans.values():
            self._write_plan(plan)
        self._plans.clear()

    def _finish_output(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._piped_answer is not None:
            self._piped_answer.finish()
        lines, self._lines = self._lines, []
        self.writer.write_lines(lines)

    def _start_refreshing(self) -> None:
        if self._timer is None and self.writer.has_live_region:
            self._timer = asyncio.get_running_loop().call_later(0, self._tick)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            self.refresh()
        except OSError as error:  # raised by the next event
            self._write_error = error
            return
        wait_s = max(TICK_S, 10 * (loop.time() - began_s))  # at most a tenth of the time
        self._timer = loop.call_later(wait_s, self._tick)

    def _live_lines(self) -> list[str]:
        if self._shares_terminal and self._message_text:
            return []
        running = [
            [*title_rows(call, self._cwd), *self._running_rows(call)]
            for call in self._open_calls.values()
        ]
        text = "" if self._piped_answer is not None else self._unfinished_text
        return self._live_region.render(
            text, self._unfinished_thought, running, list(self._plans.values())
        )

    def _running_rows(self, call: ToolCall) -> Iterator[Row]:
        if call.kind == "execute":
            yield from output_rows(call)
        for shell in self._terminals(terminal_ids(call)):
            yield from terminal_rows(shell)

    def _write_rows(self, rows: Iterable[Row], kind: str) -> None:
        self._write_lines(self.writer.render_rows(rows), kind)

    def _write_lines(self, lines: list[str], kind: str) -> None:
        """Add finished lines; at a terminal, a blank line separates them from another kind."""
        if self._piped_answer is not None:
            self._piped_answer.end_line()
        elif self._last_kind and (kind != self._last_kind or kind == "text"):
            self._lines.append("")
        self._last_kind = kind
        self._lines += lines
        if not self.writer.has_live_region:
            self.refresh()

    def _add_text(self, text: str, message_id: str | None) -> None:
        if self._unfinished_thought:
            self._flush()
        if message_id != self._message_id:
            self._message_id = message_id
            self._start_paragraph()
        if not text:
            return
        self._message_text += text
        if self._piped_answer is not None:
            if self._shares_terminal:
                self.refresh()
            self._piped_answer.write(text)
            return
        # Whether a character is printable can depend on the characters before it.
        before = self._unfinished_text[-4:]
        self._unfinished_text += printable(before + text)[len(printable(before)) :]

    def _replace_message(self, text: str, message_id: str) -> None:
        """Show a replaced message; if it extends the shown text, only the new part."""
        if message_id == self._message_id and text.startswith(self._message_text):
            self._add_text(text[len(self._message_text) :], message_id)
            return
        self._start_paragraph()
        self._message_id = message_id
        self._add_text(text, message_id)

    def _add_thought(self, text: str) -> None:
        if self._unfinished_text and not self._unfinished_thought:
            self._start_paragraph()
        self._unfinished_thought += printable(text)
        if self._show_thoughts:
            whole, found, rest = self._unfinished_thought.rpartition("\n\n")
            if found:
                self._write_thought(whole)
                self._unfinished_thought = rest

    def _start_paragraph(self) -> None:
        """Write unfinished output; the next text starts a paragraph."""
        self._flush()
        self._message_text = ""
        if self._piped_answer is not None:
            self._piped_answer.start_paragraph()

    def _flush(self) -> None:
        thought, self._unfinished_thought = self._unfinished_thought, ""
        if self._show_thoughts:
            self._write_thought(thought)
        text, self._unfinished_text = self._unfinished_text, ""
        self._write_text(text)

    def _write_text(self, text: str) -> None:
        if text.strip():
            self._write_lines(self._markdown.lines(text), "text")

    def _write_thought(self, thought: str) -> None:
        if thought.strip():
            lines = thought.strip("\n").split("\n")
            self._write_rows(
                [Row(line, "dim italic", "┊ ", "┊ ", "dim") for line in lines], "thought"
            )

    def _note(self, text: str, style: str = "dim") -> None:
        self._write_rows([Row(one_line(text), style)], "note")

    def _notice(self, notice: Notice) -> None:
        style = SEVERITIES.get(notice.severity, "cyan")
        rows = [Row(one_line(notice.title), style, f"{one_line(str(notice.severity), 20)}: ")]
        lines = printable(notice.description or "").strip().splitlines()
        rows += [Row(line, "dim", "  ") for line in lines]
        self._write_rows(rows, "note")

    def _show_tool_call(self, call: ToolCall) -> None:
        if call.id not in self._open_calls and call.id not in self._written_calls:
            self._start_paragraph()  # earlier text belongs above the call
        self._terminals_in_calls.update(terminal_ids(call))
        if call.id in self._written_calls:
            self._write_changes(call)
        elif not call.is_open and not (self._is_cancelling and call.status == "cancelled"):
            self._write_call(call)
        else:
            self._open_calls[call.id] = call

    def _write_call(self, call: ToolCall) -> None:
        self._open_calls.pop(call.id, None)
        self._written_calls[call.id] = call
        if (
            call.kind == "think"
            and call.id in self._calls_during_plan
            and call.status == "completed"
        ):
            return  # it only changed the plan, which is shown
        body = list(self._call_rows(call))
        self._write_rows(
            [*title_rows(call, self._cwd), *body], "tool" if not body else f"tool {call.id}"
        )

    def _write_changes(self, call: ToolCall) -> None:
        """Write what has changed since a tool call was written, which is rare."""
        before = self._written_calls[call.id]
        new = [diff for diff in diffs_of(call) if diff not in self._written_diffs.get(call.id, ())]
        if not call.is_open and (new or call.shown_status != before.shown_status):
            self._write_call(call)

    def _call_rows(self, call: ToolCall) -> Iterator[Row]:
        yield from self._diff_rows(call)
        yield from output_rows(call)
        for shell in self._terminals(terminal_ids(call)):
            yield from terminal_rows(shell)

    def _diff_rows(self, call: ToolCall) -> Iterator[Row]:
        written = self._written_diffs.setdefault(call.id, set())
        new = [diff for diff in dict.fromkeys(diffs_of(call)) if diff not in written]
        written.update(new)
        for diff in new:
            if len({one.path for one in diffs_of(call)}) > 1:
                yield Row(one_line(relative_path(diff.path, self._cwd)), "bold", "  ")
            yield from limited_diff_rows(diff, lines_before_diff(diff, call, self._cwd))

    def _write_plan(self, plan: Plan) -> None:
        if plan.markdown is None:
            self._write_rows(plan_rows(plan), "plan")
        else:
            self._write_lines(self._markdown.lines(printable(plan.markdown)), "text")

    def _terminals(self, ids: list[str]) -> Iterator[TerminalTranscript]:
        for terminal_id in ids:
            if self._transcript is not None and terminal_id in self._transcript.terminals:
                yield self._transcript.terminals[terminal_id]

    @contextmanager
    def pause_output(self, request: PermissionRequest | None) -> Generator[None, None, None]:
        """Write finished output, and hold events until the block ends. It may show `request`."""
        self._start_paragraph()
        if request is not None and (call := request.tool_call) is not None:
            # The request shows the diffs; they are not written again.
            self._written_diffs.setdefault(call.id, set()).update(diffs_of(call))
        if self._piped_answer is not None:
            self._piped_answer.end_line()
        lines, self._lines = self._lines, []
        if self._last_kind:
            lines.append("")
        self.writer.write_lines(lines)
        self._last_kind = "asked"
        self._held_events = []
        try:
            yield
        finally:
            self._show_held_events()

    def _show_held_events(self) -> None:
        """Show the events that were received while output was paused."""
        held, self._held_events = self._held_events, None
        self._is_over, over = False, self._is_over
        for event in held or ():
            self.show_event(event)
        self._is_over = over


def _is_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _placeholder(content: ContentBlock) -> str:
    """Return the text that represents other content."""
    match content:
        case str():
            return content
        case (
            ImageContent(data=data, mime_type=mime_type)
            | AudioContent(data=data, mime_type=mime_type)
        ):
            return f"[{mime_type}, {len(data)} bytes]"
        case _:
            return text_of((content,))


class PipedAnswer:
    """Writes the text to `out`; `other`, for all other output, may be the same file."""

    def __init__(self, out: TextIO, other: TextIO) -> None:
        self.stream = out
        self._is_same_file = _same_file(out, other)
        self._written = False
        self._line_is_open = False  # only in a file that other output goes to as well
        self._starts_paragraph = False

    def start_paragraph(self) -> None:
        """Start a paragraph with the next text."""
        self._starts_paragraph = self._written

    def write(self, text: str) -> None:
        """Write text of the answer."""
        if self._starts_paragraph:
            text = ("\n" if self._is_same_file and not self._line_is_open else "\n\n") + text
        self._starts_paragraph = False
        self._write(text)

    def end_line(self) -> None:
        """End an unfinished line, before other output is written to the same file."""
        if self._line_is_open:
            self._write("\n")

    def finish(self) -> None:
        """End the last line."""
        if self._line_is_open or (self._written and not self._is_same_file):
            self._write("\n")
        self._written = self._line_is_open = False

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()
        self._written = True
        self._line_is_open = self._is_same_file and not text.endswith("\n")


def _same_file(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams write to the same file, as in `> log 2>&1`."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):  # a stream without a file
        return False
