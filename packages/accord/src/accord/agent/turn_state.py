"""The state of one turn: its place in the queue of its session, and whether it is cancelled."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from accord.connection.tasks import cancel

# The turn on whose behalf this code runs; None in background work.
current_turn: ContextVar[TurnState | None] = ContextVar("accord.agent.turn")


class TurnState:
    """One turn, as the session and the code below `Turn` see it.

    `may_start` is set when the earlier turns of the session are over, `finished` at its end.
    """

    def __init__(self) -> None:
        self.cancelled = False
        self.is_over = False  # what the turn began and did not end is background work now
        self.message_id = ""
        self.may_start: asyncio.Event = asyncio.Event()
        self.finished: asyncio.Event = asyncio.Event()
        self.task: asyncio.Task[object] | None = None  # that runs the handler

    def cancel(self) -> None:
        """Cancel the turn: its stop reason is `cancelled`, however its handler ends."""
        if not self.cancelled:
            self.cancelled: bool = True
            if self.task is not None:
                cancel(self.task)
