"""The registry of agents for the chat: blocking work in threads, which can be given up."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from accord_terminal.agents.installation import Progress, install, note_quarantine
from accord_terminal.agents.registry import (
    DEFAULT_REGISTRY,
    REGISTRY_VARIABLE,
    Catalogue,
    Entry,
    InstallError,
    Kind,
    load_catalogue,
)
from accord_terminal.toolkit.agent_names import InstalledAgent

T = TypeVar("T")


def registry_address() -> str:
    """Return the registry of `accord agents`: ACCORD_REGISTRY, or the public one."""
    return os.environ.get(REGISTRY_VARIABLE) or DEFAULT_REGISTRY


async def load_registry(address: str) -> Catalogue:
    """Load a registry, or its last good copy; note which installed agents are in quarantine.

    Raises `RegistryError` if there is neither, and `InstallError` if it cannot be noted.
    """

    def load() -> Catalogue:
        catalogue = load_catalogue(address)
        note_quarantine(catalogue.url, catalogue.quarantine)
        return catalogue

    return await _in_thread(load)


class Installing:
    """The installation of one agent; when it is cancelled, everything is as it was."""

    def __init__(
        self,
        catalogue: Catalogue,
        entry: Entry,
        kind: Kind,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._work = (catalogue, entry, kind)
        self._on_progress = on_progress
        self.is_cancelled = False
        self._ended = asyncio.Event()

    async def run(self) -> InstalledAgent:
        """Install the agent. Raises `InstallError`, also if it is cancelled."""
        loop = asyncio.get_running_loop()

        def report(progress: Progress) -> None:  # in the thread
            if self.is_cancelled:
                raise InstallError("Cancelled: nothing was installed")
            with suppress(RuntimeError):  # the program has ended
                loop.call_soon_threadsafe(self._on_progress, progress)

        def work() -> InstalledAgent:
            try:
                return install(*self._work, on_progress=report)
            finally:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._ended.set)

        return await _in_thread(work)

    async def cancel(self, limit_s: float) -> None:
        """Stop, and wait some time for the end: a server may be silent."""
        self.is_cancelled = True
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._ended.wait()


async def _in_thread(work: Callable[[], T]) -> T:
    """Do something that blocks, in a thread that does not keep the program from ending."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: Exception | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)  # type: ignore[arg-type]  # there is one without an error

    def run() -> None:
        value, failed = None, None
        try:
            value = work()
        except Exception as error:  # noqa: BLE001  # raised where it is waited for
            failed = error
        with suppress(RuntimeError):  # the program has ended
            loop.call_soon_threadsafe(settle, value, failed)

    threading.Thread(target=run, name="accord chat registry", daemon=True).start()
    return await result
