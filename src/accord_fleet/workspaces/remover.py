"""Removes empty folders while attempts continue: some file systems take milliseconds for each."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from accord_fleet.workspaces.remove import remove_tree

__all__ = ("Remover", "removed")

log: logging.Logger = logging.getLogger("accord.fleet")

_MOST = 256  # folders that wait


class Remover:
    """Removes folders in a thread, many in one call."""

    def __init__(self) -> None:
        self._waiting: list[Path] = []
        self._removing: asyncio.Task[None] | None = None

    async def add(self, folder: Path) -> None:
        """Let a folder be removed; wait only if too many wait already."""
        self._waiting.append(folder)
        if self._removing is None:
            self._removing = asyncio.create_task(self._remove_all(), name="accord fleet remover")
        elif len(self._waiting) > _MOST:
            await asyncio.shield(self._removing)

    async def aclose(self) -> None:
        """Wait until all folders are removed."""
        if self._removing is not None:
            await asyncio.shield(self._removing)

    async def _remove_all(self) -> None:
        while self._waiting:
            folders, self._waiting = self._waiting, []
            await asyncio.to_thread(removed, folders)
        self._removing = None


def removed(folders: list[Path]) -> None:
    """Remove folders; what cannot be removed is logged as a warning."""
    for folder in folders:
        for failure in remove_tree(folder):
            log.warning("A workspace was not removed completely: %s", failure)
