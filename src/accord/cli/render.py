"""A turn for people: Markdown, tool calls, diffs in colour, output, the plan, a sign of life."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text as Line

from accord.cli.keyboard import forget_typed, typed_line
from accord.cli.shown import diff_lines, finished, one_line, printable, tail
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
from accord.client.permissions import command_of
from accord.model.content import Audio, Content, Image, text_of
from accord.model.tools import Diff, TerminalView
from accord.tasks import is_being_cancelled

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.elicitation import Form, Values, WebPage
    from accord.client.session import ClientSession
    from accord.client.transcript import Shell, Transcript
    from accord.client.turn import ClientTurn

__all__ = ("Rendered",)

T = TypeVar("T")

LIVE_LINES = 6  # of an output, while its command runs
LAST_LINES = 12  # of an output, when it is over
MARKS = {
    "pending": ("○", "dim"),
    "in_progress": ("◐", "yellow"),
    "completed": ("●", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("⊘", "dim"),
}
DECISIONS: dict[str, Decision] = {
    "y": "allow",
    "a": "allow_always",
    "n": "reject",
    "d": "reject_always",
}


class Rendered:
    """Shows a turn at the terminal; into a pipe goes the answer, all else to stderr."""

    def __init__(self) -> None:
        self.out = Console()
        self.side = self.out if self.out.is_terminal else Console(stderr=True)
        self._transcript: Transcript | None = None
        self._waiting = ""  # for what, while there is no session
        self._text = ""  # of the message, as far as it is not printed
        self._written = False  # something of the answer stands in the pipe
        self._is_one = self.side is not self.out and _is_one_file(self.out, self.side)
        self._hangs = False  # the answer's last line, where all else is written as well
        self._message_id: str | None = None  # of what was said last
        self._broken_off = False  # what is said next begins a paragraph
        self._plan: Plan | None = None
        self._calls: dict[str, ToolCall] = {}  # that are not done
        self._diffs: dict[str, set[Diff]] = {}
        self._busy: set[str] = set()  # terminals that something was heard of
        self._shown: set[str] = set()  # terminals that stand in a tool call
        self._thinking = False
        self._live: Live | None = None
        self._spinner = Spinner("dots")
        self._agent = "The agent"
        self._asking = asyncio.Lock()  # nobody is asked two things at once
        self._answering: asyncio.Future[Any] | None = None  # to what can be declined

    def wait(self, name: str) -> None:
        """Show a sign of life from now on."""
        self._waiting = f"starting {printable(name)}"
        self._go_on()

    def begin(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Look at this session's terminals."""
        self._waiting = ""
        self._agent = agent.info.title or agent.info.name
        self._transcript = session.transcript
        self._go_on()

    def show(self, event: Event) -> None:
        """Show what happened."""
        match event:
            case Text(text, message_id):
                self._thinking = False
                if message_id != self._message_id:
                    self._message_id = message_id
                    self._break_off()
                self._say(text)
            case Thought():
                self._thinking = True
            case Media(content=content, role="agent"):
                self._say(_placeholder(content))
            case Rewritten(role="agent", content=contents):
                self._break_off()
                self._say("".join(part for part in contents if isinstance(part, str)))
            case ToolCall():
                self._tool(event)
            case Terminal(id=terminal_id) | TerminalOutput(id=terminal_id):
                self._busy.add(terminal_id)
            case Plan():
                self._plan = None if event.removed else event
            case Notice():
                self._line(f"{event.severity}: {event.title}", "yellow")
                if event.description:
                    self._line(f"  {event.description}", "dim")
            case Subagent(title=title, state=state) if state is not None:
                self._line(f"[{title or event.id}: {state.state}]", "dim")
            case Compaction(status=status):
                self._line(f"[memory: {status}]", "dim")
            case _:
                pass

    def end(self, turn: ClientTurn) -> None:
        """Show what is left, and how it ended."""
        self._flush()
        self.close()
        for call in self._calls.values():
            self._line(*_call_line(call))
            self._show_output(call)
        for shell in self._shells(sorted(self._busy - self._shown)):
            self._line(f"$ {shell.terminal.command or shell.terminal.id}", "bold")
            self._show_shell(shell)
        if self._plan is not None:
            self._begin_line()
            self.side.print(_plan(self._plan))
        if turn.stop_reason != "end_turn":
            self._line(f"[{turn.stop_reason}]", "yellow")
        self._end_answer()

    def fail(self, message: str, code: int | None) -> None:
        """Show what was said before it failed."""
        self._flush()
        self._end_answer()

    def close(self) -> None:
        """Stop the sign of life."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _go_on(self) -> None:
        if self._live is None and self.side.is_terminal:
            self._live = Live(
                get_renderable=self._moving, console=self.side, transient=True, refresh_per_second=8
            )
            self._live.start()

    # The answer.

    def _break_off(self) -> None:
        """Let what is said next begin a paragraph: it is another message."""
        self._flush()
        self._broken_off = self._written

    def _say(self, text: str) -> None:
        if not self.out.is_terminal:
            if self._broken_off:
                text = ("\n" if self._is_one and not self._hangs else "\n\n") + text
            self._write(text)
            self._broken_off = False
            return
        self._text += printable(text)
        end = finished(self._text)
        if end:
            self.out.print(_markdown(self._text[:end]))
            self._text = self._text[end:]

    def _write(self, text: str) -> None:
        """Put text into the pipe."""
        self.out.file.write(text)
        self.out.file.flush()
        self._written = True
        self._hangs = self._is_one and not text.endswith("\n")

    def _begin_line(self) -> None:
        """What is not the answer stands in lines of its own, in one file with it, too."""
        if self._hangs:
            self._write("\n")

    def _end_answer(self) -> None:
        if self._hangs or (self._written and not self._is_one):
            self._write("\n")

    def _flush(self) -> None:
        if self._text.strip():
            self.out.print(_markdown(self._text))
        self._text = ""

    # What the agent does.

    def _tool(self, call: ToolCall) -> None:
        self._break_off()
        self._shown.update(_terminals_of(call))
        if call.done:
            self._calls.pop(call.id, None)
            self._line(*_call_line(call))
            self._show_output(call)
        else:
            self._calls[call.id] = call
        self._show_diffs(call)

    def _show_diffs(self, call: ToolCall) -> None:
        shown = self._diffs.setdefault(call.id, set())
        for content in call.content:
            if isinstance(content, Diff) and content not in shown:
                shown.add(content)
                for line, style in diff_lines(content):
                    self._line(f"  {line}", style)

    def _show_output(self, call: ToolCall) -> None:
        """Show the end of what a command printed, and of what a call that failed says."""
        if call.kind == "execute" or call.status == "failed":
            self._lines(*tail(_text_of(call), LAST_LINES))
        for shell in self._shells(_terminals_of(call)):
            self._show_shell(shell)

    def _show_shell(self, shell: Shell) -> None:
        self._lines(*tail(shell.output, LAST_LINES))
        terminal = shell.terminal
        if terminal.signal is not None:
            self._line(f"  ended by {terminal.signal}", "red")
        elif terminal.exit_code:
            self._line(f"  exit status {terminal.exit_code}", "red")

    def _lines(self, lines: list[str], more: bool) -> None:
        if more:
            self._line("  │ …", "dim")
        for line in lines:
            self._line(f"  │ {line}", "dim")

    def _shells(self, ids: list[str]) -> Iterator[Shell]:
        for terminal_id in ids:
            if self._transcript is not None and terminal_id in self._transcript.terminals:
                yield self._transcript.terminals[terminal_id]

    def _line(self, text: str, style: str = "") -> None:
        self._begin_line()
        self.side.print(Line(printable(text), style=style))

    def _moving(self) -> RenderableType:
        """Return what stands below all that is printed, and changes; another thread asks."""
        parts: list[RenderableType] = []
        if self._text.strip():
            parts.append(_markdown(self._text))
        if self._plan is not None:
            parts.append(_plan(self._plan))
        for call in list(self._calls.values()):
            parts.append(Line(*_call_line(call)))
            parts += self._running(call)
        self._spinner.text = self._waiting or ("thinking" if self._thinking else "")
        parts.append(self._spinner)
        return Group(*parts)

    def _running(self, call: ToolCall) -> Iterator[Line]:
        outputs: list[bytearray | str] = [
            shell.output for shell in self._shells(_terminals_of(call))
        ]
        if call.kind == "execute":
            outputs.append(_text_of(call))
        for output in outputs:
            for line in tail(output, LIVE_LINES)[0]:
                yield Line(f"  │ {line}", style="dim", no_wrap=True, overflow="ellipsis")

    # Asking.

    async def ask(self, request: PermissionRequest) -> Decision | None:
        """Let the user decide; what is neither yes nor always is no."""
        async with self._asking:
            with self._still():
                return await self._decided(request)

    async def _decided(self, request: PermissionRequest) -> Decision | None:
        call = request.tool_call
        self._line(one_line(request.title or (call.title if call else "May I?")), "bold")
        for line in (request.description or "").splitlines():
            self._line(f"  {line}")
        if (command := command_of(request)) is not None:
            first, *more = command.splitlines() or [""]
            self._line("\n    ".join([f"  $ {first}", *more]), "cyan")
        if call is not None:
            self._show_diffs(call)
        self.side.print("[y]es, [a]lways, [n]o, [d]on't ever: ", end="", markup=False)
        answer = (await typed_line()).strip().lower()[:1]
        return DECISIONS.get(answer, "reject")

    async def fill_in(self, form: Form) -> Values | None:
        """Let the user fill in a form; None when they decline."""
        from accord.cli.forms import Refused, fill_in

        try:
            return await self._declinable(
                lambda: fill_in(form, self._agent, self._line, self._typed)
            )
        except Refused as why:
            self._line(f"  declined: {why}", "yellow")
            return None

    async def visit(self, page: WebPage) -> bool:
        """Let the user open a page, or not."""
        from accord.cli.forms import visit

        agreed = await self._declinable(lambda: visit(page, self._agent, self._line, self._typed))
        return agreed is True

    def decline(self) -> bool:
        """Decline what the user is asked just now; tell whether there was something."""
        if self._answering is None:
            return False
        return self._answering.cancel()

    async def _declinable(self, answer: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        try:
            async with self._asking:
                with self._still():
                    self._break_off()  # what was said before stands above
                    self._answering = asyncio.ensure_future(answer())
                    return await self._answering
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            self._line("  declined", "yellow")
            return None
        finally:
            self._answering = None

    async def _typed(self, prompt: str) -> str | None:
        """Ask for a line; None when no more can be typed."""
        self.side.print(printable(prompt), end="", markup=False, highlight=False, soft_wrap=True)
        return await typed_line() or None

    @contextmanager
    def _still(self) -> Generator[None, None, None]:
        moving = self._live is not None
        self.close()
        forget_typed()
        try:
            yield
        finally:
            if moving:
                self._go_on()


def _is_one_file(one: Console, other: Console) -> bool:
    """Tell whether two streams write to one file, as in `> log 2>&1`."""
    try:
        return os.path.sameopenfile(one.file.fileno(), other.file.fileno())
    except (OSError, ValueError):  # one of them is no file
        return False


def _call_line(call: ToolCall) -> tuple[str, str]:
    mark, style = MARKS.get(call.status, MARKS["in_progress"])
    return f"{mark} {one_line(call.title or call.kind)}", style


def _terminals_of(call: ToolCall) -> list[str]:
    return [part.terminal_id for part in call.content if isinstance(part, TerminalView)]


def _text_of(call: ToolCall) -> str:
    return "".join(part for part in call.content if isinstance(part, str))


def _placeholder(content: Content) -> str:
    """Return what stands for something that is no text."""
    match content:
        case Image(data=data, mime_type=mime_type) | Audio(data=data, mime_type=mime_type):
            return f"[{mime_type}, {len(data)} bytes]"
        case _:
            return text_of((content,))


def _markdown(text: str) -> RenderableType:
    from rich.markdown import Markdown  # half as large as all else together

    return Markdown(text)


def _plan(plan: Plan) -> RenderableType:
    if plan.markdown is not None:
        return _markdown(printable(plan.markdown))
    if plan.uri is not None:
        return Line(printable(plan.uri))
    lines = Line()
    for entry in plan.entries:
        mark, style = MARKS.get(entry.status, MARKS["pending"])
        lines.append(f"{mark} {one_line(entry.content)}\n", style=style)
    lines.rstrip()
    return lines
