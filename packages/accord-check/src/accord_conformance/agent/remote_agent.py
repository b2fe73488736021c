"""An agent at a URL: how the kit connects to it."""

from __future__ import annotations

from typing import Literal, TypeGuard
from urllib.parse import urlsplit

from msgspec import Struct, field

from accord.errors import ConnectionLost, ConnectionRefused, TransportError
from accord.transports.base import Transport, opened
from accord.transports.registry import RemoteOptions, transport_for_url

_CONNECTION_ID = "Acp-Connection-Id"
# The token or the address is wrong, a proxy cannot reach the server, or it accepts no more.
_NOT_THE_SERVER = frozenset({401, 403, 404, 405, 407, 421, 426, 429, 501, 502, 503, 504})


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

    `initialize` is the first request over HTTP. Other answers are the fault of the server.
    """
    if isinstance(error, ConnectionRefused):
        return 300 <= error.status < 400 or error.status in _NOT_THE_SERVER
    is_lost = isinstance(error, ConnectionLost)
    # Only an error in connecting has a cause.
    return isinstance(error, TransportError) and not is_lost and error.__cause__ is not None


def missing_in_answer(error: Exception | None) -> str | None:
    """Return what the HTTP response to `initialize` lacks, if the transport ended for it."""
    if _CONNECTION_ID in str(error):
        return f"the header {_CONNECTION_ID} in the response to `initialize`"
    if "did not answer initialize" in str(error):
        return "the JSON-RPC response to `initialize`"
    return None
