"""Judges the recordings that a page looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from accord_inspector.judged import Judged
from accord_inspector.messages import Messages


class JudgedRecordings:
    """The judged recordings by name: judging begins when one is asked for."""

    def __init__(
        self,
        messages: Callable[[str], Messages],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        changed: Callable[[], None],
    ) -> None:
        self._messages_of = messages
        self._spawn = spawn
        self._changed = changed
        self._judged: dict[Messages, Judged] = {}

    def of(self, recording: str) -> Judged:
        """Return what is known of a recording; raise `ApiError` if it is unknown."""
        messages = self._messages_of(recording)
        judged = self._judged.get(messages)
        if judged is None:
            judged = self._judged[messages] = Judged()
            self._spawn(self._judge(messages, judged))
        return judged

    def known(self, recording: str) -> Judged | None:
        """Return what is known of a recording if it is judged; raise `ApiError` as `of`."""
        return self._judged.get(self._messages_of(recording))

    async def _judge(self, messages: Messages, judged: Judged) -> None:
        grown = asyncio.Event()
        messages.observe(lambda _count: grown.set())
        judged.observe(self._changed)
        while not (messages.is_read or messages.grows):  # reading comes first
            grown.clear()
            await grown.wait()
        await judged.run(
            messages.path,
            lambda: len(messages),
            lambda: messages.is_read and not messages.grows,
            grown,
        )
