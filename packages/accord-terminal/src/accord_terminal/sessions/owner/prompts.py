"""The queue of prompts of a session: one turn runs, the others wait in submission order."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import TYPE_CHECKING, Literal

from accord_terminal.sessions.entries import Ended
from accord_terminal.sessions.records import Approvals

if TYPE_CHECKING:
    from accord.types.content import ContentBlock


class Prompt:
    """A submitted prompt; `started` has the message id of the agent, `ended` how the turn ended."""

    def __init__(
        self,
        content: tuple[ContentBlock, ...],
        *,
        by: str,
        approvals: Approvals,
        attached: bool = False,
        prompt_id: str | None = None,
    ) -> None:
        self.id: str = prompt_id or f"p-{os.urandom(6).hex()}"
        self.content = content
        self.by = by
        self.approvals = approvals
        self.attached = attached  # a submitter that leaves cancels it
        self.state: Literal["queued", "running", "ended"] = "queued"
        self.is_cancelled = False
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[str] = loop.create_future()
        self.ended: asyncio.Future[Ended] = loop.create_future()

    @property
    def text(self) -> str:
        """The beginning of its text, as one line."""
        words = " ".join(str(part) for part in self.content if isinstance(part, str)).split()
        return " ".join(words)[:200]

    def end(self, ended: Ended) -> None:
        """Let those who wait for the turn continue."""
        self.state = "ended"
        if not self.started.done():
            self.started.cancel()
        if not self.ended.done():
            self.ended.set_result(ended)


class PromptQueue:
    """The prompts that have not ended; the first one runs, or is about to (R-NAMED-04)."""

    def __init__(self) -> None:
        self.running: Prompt | None = None
        self._waiting: deque[Prompt] = deque()
        self._added = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting) + (self.running is not None)

    @property
    def prompts(self) -> list[Prompt]:
        """The running prompt, then the waiting ones in their order."""
        return [*([self.running] if self.running else []), *self._waiting]

    def add(self, prompt: Prompt) -> int:
        """Append a prompt; return how many are before it."""
        self._waiting.append(prompt)
        self._added.set()
        return len(self) - 1

    def withdraw(self, prompt: Prompt) -> bool:
        """Remove a waiting prompt; return False if it is not waiting."""
        if prompt not in self._waiting:
            return False
        self._waiting.remove(prompt)
        return True

    def find(self, prompt_id: str) -> Prompt | None:
        """Return a prompt that has not ended."""
        return next((prompt for prompt in self.prompts if prompt.id == prompt_id), None)

    async def next(self) -> Prompt:
        """Wait for the next prompt, which is running from now on."""
        self.running = None
        while not self._waiting:
            self._added.clear()
            await self._added.wait()
        self.running = self._waiting.popleft()
        self.running.state = "running"
        return self.running

    def done(self) -> None:
        """Nothing runs any more."""
        self.running = None
