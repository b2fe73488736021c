"""Removes empty folders while attempts continue: some file systems take milliseconds for each."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from accord_fleet.workspaces.remove import remove_tree

log: logging.Logger = logging.getLogger("accord.fleet")

_MANY = 64  # folders that are removed without waiting for others
_MOST = 256  # folders that wait
_PAUSE_S = 0.1  # in which others may join


class Remover:
    """Removes folders in a thread, many in one call."""

    def __init__(self) -> None:
        self._waiting: list[Path] = []
        self._timer: asyncio.TimerHandle | None = None
        self._removing: asyncio.Task[None] | None = None

    async def add(self, folder: Path) -> None:
        """Let a folder be removed soon; wait only if too many wait already."""
        self._waiting.append(folder)
        self._plan()
        if len(self._waiting) > _MOST and self._removing is not None:
            await asyncio.shield(self._removing)

    async def aclose(self) -> None:
        """Wait until all folders are removed."""
        while self._waiting or self._removing is not None:
            self._start()
            if self._removing is not None:
                await asyncio.shield(self._removing)

    def _plan(self) -> None:
        if len(self._waiting) >= _MANY:
            self._start()
        elif self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._removing is None:
            self._removing = asyncio.create_task(self._remove(), name="accord fleet remover")

    async def _remove(self) -> None:
        folders, self._waiting = self._waiting, []
        try:
            await asyncio.to_thread(removed, folders)
        finally:
            self._removing = None
            self._plan()


def removed(folders: list[Path]) -> None:
    """Remove folders; what cannot be removed is logged as a warning."""
    for folder in folders:
        for failure in remove_tree(folder):
            log.warning("A workspace was not removed completely: %s", failure)
