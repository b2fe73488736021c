"""A turn for people: Markdown, tool calls, diffs in colour, the plan, and a sign of life."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import os
import sys
import threading
from collections.abc import Awaitable, Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.spinner import Spinner
from rich.text import Text as Line

from accord.client.connect import ConnectedAgent
from accord.client.events import (
    Decision,
    Event,
    Notice,
    PermissionRequest,
    Plan,
    Rewritten,
    Text,
    Thought,
    ToolCall,
)
from accord.client.permissions import command_of
from accord.client.session import ClientSession
from accord.client.turn import ClientTurn
from accord.model.tools import Diff

__all__ = ("Rendered", "diff_lines", "finished", "printable")

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
# What would move the cursor or worse; tabs and line ends stay.
_CONTROLS = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def printable(text: str) -> str:
    """Return a text of the agent's without what a terminal would obey."""
    return text.translate(_CONTROLS)


def finished(text: str) -> int:
    """Return how much of a Markdown text is over: up to a blank line outside code."""
    end = 0
    at = 0
    fenced = False
    for line in text.splitlines(keepends=True):
        at += len(line)
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not line.strip() and not fenced and line.endswith("\n"):
            end = at
    return end


def diff_lines(diff: Diff) -> list[tuple[str, str]]:
    """Return the lines of a diff, each with its style."""
    if diff.patch is not None:
        lines = diff.patch.splitlines()
    else:
        lines = list(
            difflib.unified_diff(
                (diff.old or "").splitlines(),
                (diff.new or "").splitlines(),
                diff.path if diff.old is not None else "/dev/null",
                diff.path if diff.new is not None else "/dev/null",
                lineterm="",
            )
        )
    return [(printable(line), _style(line)) for line in lines]


def _style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


class Rendered:
    """Shows a turn at the terminal; into a pipe goes the answer, all else to stderr."""

    def __init__(self) -> None:
        self.out = Console()
        self.side = self.out if self.out.is_terminal else Console(stderr=True)
        there = sys.stdin.isatty() and self.side.is_terminal
        self.ask: Callable[[PermissionRequest], Awaitable[Decision | None]] | None = (
            self._ask if there else None
        )
        self._text = ""  # of the message, as far as it is not printed
        self._written = False  # something of the answer stands in the pipe
        self._plan: Plan | None = None
        self._calls: dict[str, ToolCall] = {}  # that are not done
        self._diffs: dict[str, set[Diff]] = {}
        self._thinking = False
        self._live: Live | None = None

    def begin(self, agent: ConnectedAgent, session: ClientSession) -> None:
        """Show a sign of life from now on."""
        if self.side.is_terminal:
            self._live = Live(
                get_renderable=self._moving, console=self.side, transient=True, refresh_per_second=8
            )
            self._live.start()

    def show(self, event: Event) -> None:
        """Show what happened."""
        match event:
            case Text(text):
                self._thinking = False
                self._say(text)
            case Thought():
                self._thinking = True
            case Rewritten(role="agent", content=content):
                self._flush()
                self._say("".join(part for part in content if isinstance(part, str)))
            case ToolCall():
                self._tool(event)
            case Plan():
                self._plan = None if event.removed else event
            case Notice(severity=severity, title=title):
                self._line(f"{severity}: {title}", "yellow")
            case _:
                pass

    def end(self, turn: ClientTurn) -> None:
        """Show what is left, and how it ended."""
        self._flush()
        self.close()
        for call in self._calls.values():
            self._line(*_call_line(call))
        if self._plan is not None:
            self.side.print(_plan(self._plan))
        if turn.stop_reason != "end_turn":
            self._line(f"[{turn.stop_reason}]", "yellow")
        if self._written:
            self.out.file.write("\n")

    def close(self) -> None:
        """Stop the sign of life."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    # The answer.

    def _say(self, text: str) -> None:
        if not self.out.is_terminal:
            self.out.file.write(text)
            self.out.file.flush()
            self._written = True
            return
        self._text += printable(text)
        end = finished(self._text)
        if end:
            self.out.print(Markdown(self._text[:end]))
            self._text = self._text[end:]

    def _flush(self) -> None:
        if self._text.strip():
            self.out.print(Markdown(self._text))
        self._text = ""

    # What the agent does.

    def _tool(self, call: ToolCall) -> None:
        self._flush()
        if call.done:
            self._calls.pop(call.id, None)
            self._line(*_call_line(call))
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

    def _line(self, text: str, style: str = "") -> None:
        self.side.print(Line(printable(text), style=style))

    def _moving(self) -> RenderableType:
        """Return what stands below all that is printed, and changes."""
        parts: list[RenderableType] = []
        if self._text.strip():
            parts.append(Markdown(self._text))
        if self._plan is not None:
            parts.append(_plan(self._plan))
        parts += (Line(*_call_line(call)) for call in self._calls.values())
        parts.append(Spinner("dots", "thinking" if self._thinking else ""))
        return Group(*parts)

    # Asking.

    async def _ask(self, request: PermissionRequest) -> Decision | None:
        moving = self._live is not None
        self.close()
        try:
            call = request.tool_call
            self._line(request.title or (call.title if call else "May I?"), "bold")
            if request.description:
                self._line(request.description)
            if (line := command_of(request)) is not None:
                self._line(f"  $ {line}", "cyan")
            if call is not None:
                self._show_diffs(call)
            self.side.print("[y]es, [a]lways, [n]o, [d]on't ever: ", end="", markup=False)
            answer = (await _typed_line()).strip().lower()[:1]
            return DECISIONS.get(answer, "reject")
        finally:
            if moving:
                self._live = Live(
                    get_renderable=self._moving,
                    console=self.side,
                    transient=True,
                    refresh_per_second=8,
                )
                self._live.start()


def _call_line(call: ToolCall) -> tuple[str, str]:
    mark, style = MARKS.get(call.status, MARKS["in_progress"])
    return f"{mark} {printable(call.title or call.kind)}", style


def _plan(plan: Plan) -> RenderableType:
    if plan.markdown is not None:
        return Markdown(printable(plan.markdown))
    lines = Line()
    for entry in plan.entries:
        mark, style = MARKS.get(entry.status, MARKS["pending"])
        lines.append(f"{mark} {printable(entry.content)}\n", style=style)
    lines.rstrip()
    return lines


async def _typed_line() -> str:
    """Return a line from the keyboard; whoever is cancelled leaves the thread to itself."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[bytes] = loop.create_future()

    def settle(data: bytes) -> None:
        if not line.done():
            line.set_result(data)

    def read() -> None:
        # Not through `sys.stdin`: its lock would outlive us.
        data = os.read(0, 4096)
        with contextlib.suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(settle, data)

    threading.Thread(target=read, name="accord keyboard", daemon=True).start()
    return (await line).decode("utf-8", "replace")
