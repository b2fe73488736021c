"""A web server that no client should visit; it records requests."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class WebServer:
    """Listens on the loopback address while entered."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self._came = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def address(self) -> str:
        """The URL, without a slash at the end."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def wait_for_visits(self, *, within_s: float) -> list[str]:
        """Return the requested paths; wait for the first one."""
        try:
            async with asyncio.timeout(within_s):
                await self._came.wait()
        except TimeoutError:
            pass
        return self.visits

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                first = await reader.readline()
                words = first.decode("latin-1").split()
                self.visits.append(words[1] if len(words) > 1 else "nothing")
                self._came.set()
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
        except (OSError, TimeoutError):
            pass
        finally:
            writer.close()
