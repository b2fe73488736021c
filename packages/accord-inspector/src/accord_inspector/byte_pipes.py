"""Transports that pass bytes on as they are, without reading them as lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from accord.transports.base import FRAME_BYTES
from accord.transports.process import ProcessTransport
from accord.transports.stdio import FLUSH_S, PipeTransport

OnData: TypeAlias = Callable[[bytes], None]


class BytePipe(PipeTransport):
    """A pair of file descriptors; `on_data` gets what is read."""

    def __init__(self, read_fd: int, write_fd: int, on_data: OnData) -> None:
        super().__init__(read_fd, write_fd)
        self._on_data = on_data

    async def end_output(self) -> None:
        """Send what waits, and close the output."""
        await self._close_writer(FLUSH_S)

    def _received(self, data: bytes) -> None:
        self._on_data(data)


class ByteProcess(ProcessTransport):
    """An agent's process; `on_data` gets what it writes to stdout."""

    def __init__(
        self,
        argv: Sequence[str],
        on_data: OnData,
        on_stderr: Callable[[str], None],
        *,
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        super().__init__(
            argv,
            cwd=None,
            env=env,
            frame_bytes=FRAME_BYTES,
            on_stdout_noise=None,
            on_stderr=on_stderr,
            stop_times_s=(2.0, 2.0, 2.0),
        )
        self._on_data = on_data

    async def end_output(self) -> None:
        """Send what waits, and close the agent's stdin."""
        await self._close_writer(FLUSH_S)

    def _received(self, data: bytes) -> None:
        if self._closed is None:
            self._on_data(data)
