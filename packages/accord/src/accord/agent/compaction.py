"""A compaction: the model's context is being shortened."""

from __future__ import annotations

import asyncio
from types import NoneType, TracebackType
from typing import TYPE_CHECKING

from msgspec import UNSET

from accord.agent.updates import CompactionSummaryUpdate, CompactionUpdate
from accord.connection.tasks import is_stopped
from accord.types.content import require_content
from accord.types.validation import require_type

if TYPE_CHECKING:
    from accord.agent.session_core import SessionCore
    from accord.types.content import ContentBlock


class CompactionHandle:
    """A compaction, to enter: leaving the block completes it, fails it or cancels it."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self.id: str = core.next_id("compaction")
        self._has_ended = False

    async def __aenter__(self) -> CompactionHandle:
        self._core.end_message()
        await self._core.publish(CompactionUpdate(self.id, "in_progress"))
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        if isinstance(error, asyncio.CancelledError) or is_stopped():
            await self._end("cancelled")
        else:
            await self._end("completed" if error is None else "failed")

    async def summary(self, content: ContentBlock) -> None:
        """Append to the summary of the context, which the user can read (R-COMP-06)."""
        require_content("summary(content=…)", content)
        await self._core.publish(CompactionSummaryUpdate(self.id, content))

    async def fail(self, why: str | None = None) -> None:
        """End as failed, with a reason for the user."""
        require_type("fail(why=…)", why, str, NoneType)
        await self._end("failed", why)

    async def _end(self, status: str, why: str | None = None) -> None:
        if not self._has_ended and not self._core.closed:
            self._has_ended = True  # R-COMP-03
            error = UNSET if why is None else why
            await self._core.publish(CompactionUpdate(self.id, status, error))
