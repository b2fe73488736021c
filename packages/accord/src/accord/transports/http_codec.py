"""What HTTP/1.1 and HTTP/2 have in common: a connection on which requests are sent."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TypeAlias

from accord.transports.http_body import ResponseBody

KEEP_S = 3.0

Headers: TypeAlias = list[tuple[bytes, bytes]]  # the first one is `Host`


class RawResponse:
    """The head of a response, and its body as it arrives; close it."""

    def __init__(self, status: int, headers: Headers, body: ResponseBody, codec: Codec) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.reason = ""
        self.stream = 0
        self._codec = codec

    async def aclose(self) -> None:
        """Give up what was not read."""
        self._codec.requests -= 1
        self._codec.idle_since = asyncio.get_running_loop().time()
        self._codec.release(self)


class Codec(ABC):
    """What one version of HTTP makes of a connection. `requests` are those in progress.

    A connection that is idle for `keep_s` seconds is not used again: servers close connections
    that are idle for 5 seconds or more, and a request must not meet such an end.
    """

    keep_s: float = KEEP_S

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.requests = 0
        self.idle_since: float = 0.0
        self.is_over: bool = False

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether it accepts another request."""

    @abstractmethod
    async def ready(self) -> None:
        """Wait until requests can be sent; raise `OSError`."""

    @abstractmethod
    async def send(self, method: str, target: str, headers: Headers, body: bytes) -> RawResponse:
        """Send a request and return the response; raise `OSError` if the connection ends."""

    @abstractmethod
    def release(self, response: RawResponse) -> None:
        """Give up what was not read of a response."""

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """Receive bytes of the server."""

    @abstractmethod
    def eof_received(self) -> None:
        """Receive the end of the server's bytes."""

    @abstractmethod
    def lost(self, error: Exception | None) -> None:
        """Fail what is in progress."""
