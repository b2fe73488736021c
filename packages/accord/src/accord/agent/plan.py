"""A plan that the agent has shown and can update."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from accord.agent.updates import PlanRemoved, PlanUpdate
from accord.types.must_await import must_await
from accord.types.session import PlanEntry
from accord.types.validation import require_name, require_type, require_types

if TYPE_CHECKING:
    from accord.agent.session_core import SessionCore


_STATUSES = ("pending", "in_progress", "completed", "cancelled")
_PRIORITIES = ("high", "medium", "low")


class PlanHandle:
    """The entries of a plan; every change sends all of them (R-PLAN-02, R-PLAN-05)."""

    def __init__(self, core: SessionCore, plan_id: str) -> None:
        self._core = core
        self.id = plan_id
        """The id of the plan."""
        self.entries: list[PlanEntry] = []
        """The entries of the plan."""

    @must_await("plan")
    async def update(
        self,
        entry: int | str,
        *,
        status: Literal["pending", "in_progress", "completed", "cancelled"] | str | None = None,
        content: str | None = None,
        priority: Literal["high", "medium", "low"] | str | None = None,
    ) -> None:
        """Change an entry, found by its index or its content."""
        require_type("update(entry=…)", entry, int, str)
        index = entry if isinstance(entry, int) else self._index(entry)
        old = self.entries[index]
        self.entries[index] = PlanEntry(
            old.content if content is None else content,
            old.status if status is None else status,
            old.priority if priority is None else priority,
        )
        await self._show()

    @must_await("plan")
    async def replace(self, entries: Iterable[str | PlanEntry]) -> None:
        """Replace all entries."""
        entries = require_types("plan(entries=…)", entries, str, PlanEntry)
        self.entries = [PlanEntry(e) if isinstance(e, str) else e for e in entries]
        await self._show()

    @must_await("plan")
    async def remove(self) -> None:
        """Remove the plan; clients that do not support that show it as empty."""
        await self._core.publish(PlanRemoved(self.id))

    def _index(self, content: str) -> int:
        for index, entry in enumerate(self.entries):
            if entry.content == content:
                return index
        raise KeyError(content)

    async def _show(self) -> None:
        for entry in self.entries:
            require_name("PlanEntry(status=…)", entry.status, _STATUSES)
            require_name("PlanEntry(priority=…)", entry.priority, _PRIORITIES)
        await self._core.publish(PlanUpdate(self.id, tuple(self.entries)))
