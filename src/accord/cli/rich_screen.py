"""A turn for people: Markdown, tool calls, diffs in colour, output, the plan, a sign of life."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from accord.cli.answer import PipedAnswer
from accord.cli.questions import Asking
from accord.cli.rows import Row
from accord.cli.safe_text import near, one_line, printable
from accord.cli.tail import Tail
from accord.cli.terminal_output import Paper
from accord.cli.tool_rows import (
    change_rows,
    diffs_of,
    head_rows,
    output_rows,
    plan_rows,
    shell_rows,
    terminals_of,
)
from accord.cli.turn_summary import last_line
from accord.client.events import (
    Compaction,
    Decision,
    Event,
    Media,
    Notice,
    PermissionRequest,
    Plan,
    Rewritten,
    Subagent,
    Terminal,
    TerminalOutput,
    Text,
    Thought,
    ToolCall,
)
from accord.types.content import Audio, Content, Image, text_of
from accord.types.tool_calls import Diff

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.elicitation import Form, Values, WebPage
    from accord.client.session import ClientSession
    from accord.client.transcript import Shell, Transcript
    from accord.client.turn import ClientTurn

__all__ = ("Rendered",)

TICK_S = 0.1
SEVERITIES = {"error": "red", "warning": "yellow"}


class Rendered:
    """Shows a turn at the terminal; into a pipe goes the answer, all else to stderr.

    What is over is written once, for good. What still changes stands below it, in the tail.
    """

    def __init__(self, *, thoughts: bool = False, verbose: bool = False) -> None:
        out = Paper(sys.stdout or io.StringIO())
        self.side = out if out.is_terminal else Paper(sys.stderr or io.StringIO())
        self._answer = None if self.side is out else PipedAnswer(out.stream, self.side.stream)
        # What reads from a pipe may write to our terminal, where no cursor may be moved then.
        self._is_shared = self._answer is not None and _is_pipe(out.stream)
        self._with_thoughts = thoughts
        self._verbose = verbose
        self._transcript: Transcript | None = None
        self._cwd: str | None = None
        self._session_id = ""
        self._tail = Tail(self.side)
        self._lines: list[str] = []  # to be written for good
        self._last = ""  # of what kind the last of them are
        self._text = ""  # of the message, if it is not finished
        self._said = ""  # of the message so far
        self._thought = ""
        self._message_id: str | None = None
        self._plans: dict[str | None, Plan] = {}
        self._calls: dict[str, ToolCall] = {}  # that are not written yet
        self._written: dict[str, ToolCall] = {}
        self._planning: set[str] = set()  # tool calls that ran while a plan came
        self._diffs: dict[str, set[Diff]] = {}  # that were written, by tool call
        self._busy: set[str] = set()  # terminals that something was heard of
        self._shown: set[str] = set()  # terminals that stand in a tool call
        self._began_s = time.monotonic()
        self._is_cancelling = False
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._broken: OSError | None = None  # why the terminal takes no more
        self._held: list[Event] | None = None  # what happened while the user is asked
        self._asking = Asking(self.side, self._still)

    def wait(self, name: str) -> None:
        """Show a sign of life from now on."""
        self._tail.doing = f"starting {one_line(name)}"
        self._go_on()

    def begin(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Show this session."""
        self._is_over = False  # it was closed for a login at the terminal
        self._tail.doing = "working"
        self._asking.agent = agent.info.title or agent.info.name
        self._transcript = session.transcript
        self._cwd = session.cwd
        self._session_id = session.id
        self._began_s = time.monotonic()
        if self._verbose:
            name = one_line(f"{self._asking.agent} {agent.info.version}")
            self._put([Row(f"{name}, protocol version {agent.version}", "dim")], "note")
        self._go_on()

    def show(self, event: Event) -> None:
        """Show what happened."""
        if self._broken is not None:
            raise self._broken
        if self._is_over:
            return
        if self._held is not None:
            self._held.append(event)
            return
        self._tail.hint = ""
        match event:
            case Text(text, message_id):
                self._say(text, message_id)
            case Thought(text):
                self._think(text)
            case Media(content=content, role="agent", message_id=message_id):
                self._say(_placeholder(content), message_id)
            case Rewritten(role="agent", content=contents, message_id=message_id):
                self._rewrite("".join(map(_placeholder, contents)), message_id)
            case ToolCall():
                self._tool(event)
            case Terminal(id=terminal_id) | TerminalOutput(id=terminal_id):
                self._busy.add(terminal_id)
            case Plan():
                self._plans[event.id] = event
                self._planning.update(self._calls)
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
        if not self.side.has_tail:
            self.refresh()

    def hear(self, line: str) -> None:
        """Show a line that the agent wrote to stderr: for a moment, or for good."""
        if not self._verbose:
            self._tail.hint = f"stderr: {one_line(line)}"
        else:
            self._put([Row(printable(line), "dim", "stderr │ ", "       │ ", "dim")], "stderr")

    def cancelling(self) -> None:
        """Say that the turn is being cancelled."""
        self._is_cancelling = True
        self._tail.doing = "cancelling · press Ctrl-C again to quit"
        if not self.side.has_tail:
            self._put([Row("Cancelling. Press Ctrl-C again to quit.", "yellow")], "note")
        self.refresh()

    def warn(self, message: str) -> None:
        """Show a warning of our own."""
        self._put([Row(message, "yellow")], "note")

    def quit(self, turn: ClientTurn | None) -> None:
        """Show what is left; the agent has not ended the turn."""
        self._settle()
        if turn is not None:
            self._put([Row("[cancelled]", "yellow")], "note")
        self._stop()
        self._is_over = True

    def end(self, turn: ClientTurn) -> None:
        """Show what is left, and how it ended."""
        self._settle()
        if turn.stop_reason != "end_turn":
            self._put([Row(f"[{one_line(str(turn.stop_reason))}]", "yellow")], "note")
        if self._transcript is not None and (self.side.is_terminal or self._verbose):
            elapsed_s = time.monotonic() - self._began_s
            line = last_line(self._transcript, turn.tokens, self._session_id, elapsed_s)
            self._put([Row(line, "dim")], "last")
        self._stop()

    def fail(self, message: str, code: int | None) -> None:
        """Show what was said before it failed."""
        self.close()

    def close(self) -> None:
        """Show what is left, and leave everything tidy."""
        self._is_over = True
        self._settle()
        self._stop()

    def refresh(self) -> None:
        """Write what is over, and draw the tail again."""
        if self._held is not None:
            return
        if self._text and self._answer is None:
            from accord.cli.markdown import finished

            end = finished(self._text)
            self._write_text(self._text[:end])
            self._text = self._text[end:]
        lines, self._lines = self._lines, []
        self.side.put(lines, self._drawn_tail() if self.side.has_tail else ())

    def _settle(self) -> None:
        """Write all that is not written yet, as it stands."""
        self._release()
        self._flush()
        for call in list(self._calls.values()):
            self._write_call(call)
        for terminal_id in sorted(self._busy - self._shown):
            for shell in self._shells([terminal_id]):
                command = one_line(shell.terminal.command or shell.terminal.id)
                self._put([Row(command, "bold", "$ "), *shell_rows(shell)], "tool")
        self._busy.clear()
        for plan in self._plans.values():
            self._write_plan(plan)
        self._plans.clear()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._answer is not None:
            self._answer.end()
        lines, self._lines = self._lines, []
        self.side.put(lines)

    # Refreshing.

    def _go_on(self) -> None:
        if self._timer is None and self.side.has_tail:
            self._timer = asyncio.get_running_loop().call_later(0, self._tick)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            self.refresh()
        except OSError as error:  # raised by the next event
            self._broken = error
            return
        wait_s = max(TICK_S, 10 * (loop.time() - began_s))  # at most a tenth of the time
        self._timer = loop.call_later(wait_s, self._tick)

    def _drawn_tail(self) -> list[str]:
        if self._is_shared and self._said:
            return []
        running = [
            [*head_rows(call, self._cwd), *self._running_rows(call)]
            for call in self._calls.values()
        ]
        text = "" if self._answer is not None else self._text
        return self._tail.drawn(text, self._thought, running, list(self._plans.values()))

    def _running_rows(self, call: ToolCall) -> Iterator[Row]:
        if call.kind == "execute":
            yield from output_rows(call)
        for shell in self._shells(terminals_of(call)):
            yield from shell_rows(shell)

    def _put(self, rows: Iterable[Row], kind: str) -> None:
        self._put_lines(self.side.rows(rows), kind)

    def _put_lines(self, lines: list[str], kind: str) -> None:
        """Let lines be written for good; what is of another kind stands apart at a terminal."""
        if self._answer is not None:
            self._answer.make_room()
        elif self._last and (kind != self._last or kind == "text"):
            self._lines.append("")
        self._last = kind
        self._lines += lines
        if not self.side.has_tail:
            self.refresh()

    # What the agent says.

    def _say(self, text: str, message_id: str | None) -> None:
        if self._thought:
            self._flush()
        if message_id != self._message_id:
            self._message_id = message_id
            self._break_off()
        if not text:
            return
        self._said += text
        if self._answer is not None:
            if self._is_shared:
                self.refresh()
            self._answer.say(text)
            return
        # What may stand behind some characters is not to be judged without them.
        before = self._text[-4:]
        self._text += printable(before + text)[len(printable(before)) :]

    def _rewrite(self, text: str, message_id: str) -> None:
        """Show a message again that is another one now, but not what was shown of it."""
        if message_id == self._message_id and text.startswith(self._said):
            self._say(text[len(self._said) :], message_id)
            return
        self._break_off()
        self._message_id = message_id
        self._say(text, message_id)

    def _think(self, text: str) -> None:
        if self._text and not self._thought:
            self._break_off()
        self._thought += printable(text)
        if self._with_thoughts:
            whole, found, rest = self._thought.rpartition("\n\n")
            if found:
                self._write_thought(whole)
                self._thought = rest

    def _break_off(self) -> None:
        """Let what is said next begin a paragraph."""
        self._flush()
        self._said = ""
        if self._answer is not None:
            self._answer.break_off()

    def _flush(self) -> None:
        thought, self._thought = self._thought, ""
        if self._with_thoughts:
            self._write_thought(thought)
        text, self._text = self._text, ""
        self._write_text(text)

    def _write_text(self, text: str) -> None:
        if text.strip():
            from accord.cli.markdown import markdown_lines

            self._put_lines(markdown_lines(self.side, text, self.side.width), "text")

    def _write_thought(self, thought: str) -> None:
        if thought.strip():
            lines = thought.strip("\n").split("\n")
            self._put([Row(line, "dim italic", "┊ ", "┊ ", "dim") for line in lines], "thought")

    def _note(self, text: str, style: str = "dim") -> None:
        self._put([Row(one_line(text), style)], "note")

    def _notice(self, notice: Notice) -> None:
        style = SEVERITIES.get(notice.severity, "cyan")
        rows = [Row(one_line(notice.title), style, f"{one_line(str(notice.severity), 20)}: ")]
        lines = printable(notice.description or "").strip().splitlines()
        rows += [Row(line, "dim", "  ") for line in lines]
        self._put(rows, "note")

    # What the agent does.

    def _tool(self, call: ToolCall) -> None:
        if call.id not in self._calls and call.id not in self._written:
            self._break_off()  # what was said before stands above it
        self._shown.update(terminals_of(call))
        if call.id in self._written:
            self._write_more(call)
        elif call.done and not (self._is_cancelling and call.status == "cancelled"):
            self._write_call(call)
        else:
            self._calls[call.id] = call

    def _write_call(self, call: ToolCall) -> None:
        self._calls.pop(call.id, None)
        self._written[call.id] = call
        if call.kind == "think" and call.id in self._planning and call.status == "completed":
            return  # it did nothing but to change the plan, which is shown
        body = list(self._body(call))
        self._put([*head_rows(call, self._cwd), *body], "tool" if not body else f"tool {call.id}")

    def _write_more(self, call: ToolCall) -> None:
        """Write what a tool call shows only after it was written: seldom anything."""
        before = self._written[call.id]
        new = [diff for diff in diffs_of(call) if diff not in self._diffs.get(call.id, ())]
        if call.done and (new or call.status != before.status):
            self._write_call(call)

    def _body(self, call: ToolCall) -> Iterator[Row]:
        yield from self._diff_rows(call)
        yield from output_rows(call)
        for shell in self._shells(terminals_of(call)):
            yield from shell_rows(shell)

    def _diff_rows(self, call: ToolCall) -> Iterator[Row]:
        written = self._diffs.setdefault(call.id, set())
        new = [diff for diff in dict.fromkeys(diffs_of(call)) if diff not in written]
        written.update(new)
        for diff in new:
            if len({one.path for one in diffs_of(call)}) > 1:
                yield Row(one_line(near(diff.path, self._cwd)), "bold", "  ")
            yield from change_rows(diff)

    def _write_plan(self, plan: Plan) -> None:
        if plan.markdown is None:
            self._put(plan_rows(plan), "plan")
        else:
            from accord.cli.markdown import markdown_lines

            text = printable(plan.markdown)
            self._put_lines(markdown_lines(self.side, text, self.side.width), "text")

    def _shells(self, ids: list[str]) -> Iterator[Shell]:
        for terminal_id in ids:
            if self._transcript is not None and terminal_id in self._transcript.terminals:
                yield self._transcript.terminals[terminal_id]

    # Asking.

    async def ask(self, request: PermissionRequest) -> Decision | None:
        """Let the user decide."""
        return await self._asking.ask(request)

    async def fill_in(self, form: Form) -> Values | None:
        """Let the user fill in a form; None when they decline."""
        return await self._asking.fill_in(form)

    async def visit(self, page: WebPage) -> bool:
        """Let the user open a page, or not."""
        return await self._asking.visit(page)

    def decline(self) -> bool:
        """Decline what the user is asked just now; return whether there was something."""
        return self._asking.decline()

    @contextmanager
    def _still(self, request: PermissionRequest | None) -> Generator[None, None, None]:
        """Write what is over, and nothing more until the user has answered."""
        self._break_off()
        if request is not None and (call := request.tool_call) is not None:
            # It is shown with the request, and not once more below.
            self._diffs.setdefault(call.id, set()).update(diffs_of(call))
        if self._answer is not None:
            self._answer.make_room()
        lines, self._lines = self._lines, []
        if self._last:
            lines.append("")
        self.side.put(lines)
        self._last = "asked"
        self._held = []
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        """Show what happened while the user was asked."""
        held, self._held = self._held, None
        self._is_over, over = False, self._is_over
        for event in held or ():
            self.show(event)
        self._is_over = over


def _is_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _placeholder(content: Content) -> str:
    """Return what stands for something that is no text."""
    match content:
        case str():
            return content
        case Image(data=data, mime_type=mime_type) | Audio(data=data, mime_type=mime_type):
            return f"[{mime_type}, {len(data)} bytes]"
        case _:
            return text_of((content,))
