"""An agent at a URL: how the kit connects to it."""

from __future__ import annotations

from typing import Literal, TypeGuard
from urllib.parse import urlsplit

from msgspec import Struct, field

from accord.errors import ConnectionLost, TransportError
from accord.transports.base import Transport, opened
from accord.transports.registry import RemoteOptions, transport_for_url

__all__ = ("CONNECTION_ID", "RemoteAgent", "is_refusal")

CONNECTION_ID = "Acp-Connection-Id"


class RemoteAgent(Struct, frozen=True):
    """The URL of an agent, its token, and the certificates to trust."""

    url: str
    options: RemoteOptions
    waited: set[str] = field(default_factory=set[str])  # the scenarios that waited for long

    @property
    def medium(self) -> Literal["websocket", "http"]:
        """WebSocket or streamable HTTP, by the scheme of the URL."""
        return "websocket" if urlsplit(self.url).scheme.lower() in ("ws", "wss") else "http"

    async def connect(self) -> Transport:
        """Return a transport to the agent; raise `ValueError` for a URL that must not be used."""
        return await opened(transport_for_url(self.url, self.options))


def is_refusal(error: Exception | None) -> TypeGuard[TransportError]:
    """Whether an HTTP server cannot be reached, or is not that of an agent for this client.

    `initialize` is the first request over HTTP. An answer without an id has a rule of its own.
    """
    is_lost = isinstance(error, ConnectionLost)
    return isinstance(error, TransportError) and not is_lost and CONNECTION_ID not in str(error)
