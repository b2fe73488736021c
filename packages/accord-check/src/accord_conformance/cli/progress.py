"""Progress of a run: a status line at a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing import Self

    from accord_conformance.reports.run_result import ScenarioResult


_AT_A_TERMINAL_S = 0.5
_ELSEWHERE_S = 10.0
_MAX_NAMED = 2
_CLEAR = "\r\x1b[K"


class Progress:
    """Writes to `stream` while entered: the number of finished scenarios, and those that run."""

    def __init__(
        self, stream: TextIO, *, budget_s: float | None = None, every_s: float | None = None
    ) -> None:
        self.total = 0
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._every_s = every_s or (_AT_A_TERMINAL_S if self._is_terminal else _ELSEWHERE_S)
        self._budget_s = budget_s
        self._began = time.monotonic()
        self._version = 0
        self._over = 0
        self._playing: dict[str, float] = {}  # start times
        self._task: asyncio.Task[None] | None = None

    def on_start(self, version: int, name: str) -> None:
        """Record that a scenario, or the handshake of a version, begins."""
        self._version = version
        self._playing[name] = time.monotonic()

    def on_result(self, played: ScenarioResult) -> None:
        """Record that a scenario has ended."""
        self._over += 1
        self._playing.pop("handshake", None)
        self._playing.pop(played.scenario, None)

    def line(self) -> str:
        """Return the status line."""
        now = time.monotonic()
        oldest = sorted(self._playing.items(), key=lambda item: item[1])[:_MAX_NAMED]
        names = ", ".join(f"{name} ({now - since:.0f} s)" for name, since in oldest)
        of = f" of {self.total}" if self.total else ""
        budget = f" (limit {self._budget_s:g} s)" if self._budget_s else ""
        return (
            f"{now - self._began:.0f} s{budget}: version {self._version}, "
            f"{self._over}{of} scenarios done; now {names or 'nothing'}"
        )

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._write())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        if self._is_terminal:
            self._say(_CLEAR)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            self._say(f"{_CLEAR}{self.line()[:78]}" if self._is_terminal else f"{self.line()}\n")

    def _say(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the reader is gone
            self._stream.write(text)
            self._stream.flush()
