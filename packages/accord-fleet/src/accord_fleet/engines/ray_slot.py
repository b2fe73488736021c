"""One slot on a node of a Ray cluster: an actor that runs attempts, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from accord_fleet.control import Control
from accord_fleet.engine import Attempted, RunSettings
from accord_fleet.engines.ray_cluster import Versions, ray_module, this_process
from accord_fleet.engines.ray_files import NodeFiles, ShippedFiles
from accord_fleet.engines.ray_packages import with_python
from accord_fleet.gateway.limiter import Limiter
from accord_fleet.scratch import remove_abandoned, scratch_folder
from accord_fleet.types.result import Result
from accord_fleet.types.task import WorkItem

RunAttempt = Callable[[WorkItem, Control], Awaitable[Attempted]]
OpenAttempts = Callable[[RunSettings, Limiter | None], AbstractAsyncContextManager[RunAttempt]]
"""Opens what attempts in this process share; the limiter is that of the cluster."""


class Slot:
    """Runs attempts on a node; its agents stay warm between them."""

    def __init__(
        self,
        settings: RunSettings,
        open_attempts: OpenAttempts,
        limiter: Limiter | None,
        python: str,
    ) -> None:
        """`python` is the program of the driver; agents that it would run, run in that of here."""
        self._settings = with_python(settings, python, sys.executable)
        self._limiter = limiter
        self._open_attempts = open_attempts
        self._stack = contextlib.AsyncExitStack()
        self._control = Control()
        self._run: RunAttempt | None = None
        self._files: NodeFiles | None = None

    async def open(self) -> tuple[str, str, Versions]:
        """Prepare for attempts. Return node id, name of the machine and versions."""
        # Ray starts its processes with SIGINT blocked, and agents would inherit this.
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        self._files = NodeFiles(Path(tempfile.gettempdir()))
        # Files of a process that is killed are removed by the next slot or run on the node.
        await asyncio.to_thread(remove_abandoned)
        tempfile.tempdir = str(self._stack.enter_context(scratch_folder()))
        self._run = await self._stack.enter_async_context(
            self._open_attempts(self._settings, self._limiter)
        )
        node: str = ray_module().get_runtime_context().get_node_id()
        return node, self._files.machine, this_process()

    async def run(self, item: WorkItem, shipped: tuple[ShippedFiles, ...]) -> tuple[Result, bytes]:
        """Run one attempt; return its result and its recording."""
        assert self._run is not None, "open() comes first"
        assert self._files is not None
        item = await self._files.unpacked(item, shipped)
        result, trace = await self._run(item, self._control)
        if isinstance(trace, Path):
            data = trace.read_bytes()
            trace.unlink(missing_ok=True)
        else:
            data = trace or b""
        return result, data

    async def cancel(self) -> None:
        """Cancel the turns of the running attempt; its result is `cancelled`."""
        self._control.cancel()

    async def close(self) -> None:
        """End the agents and remove the files of this slot."""
        self._control.cancel()
        await self._stack.aclose()
