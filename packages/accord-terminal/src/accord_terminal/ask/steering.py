"""`accord ask --steer`: reads lines while the turn runs, and says each to the agent."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

from accord.errors import AccordError, LocalProtocolError
from accord.types.content import text_of
from accord_terminal.toolkit.keyboard import Keyboard, LineEditor
from accord_terminal.toolkit.text import one_line, steered_text

if TYPE_CHECKING:
    from accord.client.turn import ClientTurn
    from accord_terminal.ask.views import LazyView

SETTLE_S = 5.0  # after the turn, for the agent to report the outcome of a line


class SteeringLines:
    """Says each line of standard input to the agent of a turn, inside the block."""

    def __init__(self, turn: ClientTurn, view: LazyView) -> None:
        self._turn = turn
        self._view = view
        self._editor = LineEditor(lambda: (), self._edited, lambda: None)
        self._keyboard = Keyboard(self._take, editor=self._editor)
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._unsent: list[str] = []

    async def __aenter__(self) -> Self:
        self._view.typing = self._keyboard
        self._keyboard.resume()
        self._edited("")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._view.typing = None
        rest = self._keyboard.close()
        self._view.show_typed(None)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SETTLE_S)
        for task, line in tuple(self._tasks.items()):
            task.cancel()
            self._show(line, "it is not known whether the agent has it")
        self._unsent += [text_of(contents) for contents in self._turn.unsent]
        for line in (*self._unsent, rest):
            if line.strip():
                self._show(line, "not sent: the turn has ended")

    def _edited(self, _: str) -> None:
        self._view.show_typed(self._editor.line)

    def _take(self, line: str | None) -> None:
        self._edited("")
        text = (line or "").strip()
        if text:
            task = asyncio.create_task(self._say(text), name="accord ask steer")
            self._tasks[task] = text
            task.add_done_callback(self._tasks.pop)

    async def _say(self, text: str) -> None:
        try:
            said = await self._turn.steer(text)
        except LocalProtocolError:  # the turn has ended, or is being cancelled
            self._unsent.append(text)
        except AccordError as error:
            self._show(text, str(error))
        else:
            self._show(text, steered_text(said.outcome, said.by, said.reason))

    def _show(self, text: str, what: str) -> None:
        self._view.show_said(f"› {one_line(text, 60)}: {one_line(what, 200)}")
