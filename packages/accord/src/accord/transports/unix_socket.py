"""The WebSocket transport on a Unix socket: an agent that another process of this user serves."""

from __future__ import annotations

from pathlib import Path

from accord.errors import TransportError
from accord.transports.base import TransportFactory
from accord.transports.registry import RemoteOptions
from accord.transports.remote_address import DEFAULT_PATH
from accord.transports.websocket import WebSocketTransport
from accord.transports.websocket_frames import FrameConnection

_URL = f"ws://localhost{DEFAULT_PATH}"


def unix_socket(address: str, options: RemoteOptions | None = None) -> TransportFactory:
    """Return what connects to the agent at `unix:PATH`, at its path `/acp` (R-SEC-13).

    No token is sent: the server checks the user. Raises `ValueError` for an empty path.
    """
    del options
    text = address.partition(":")[2]
    if text.startswith("///"):  # unix:///PATH
        text = text[2:]
    if not text:
        raise ValueError("Expected the path of a socket after unix:, such as unix:/run/agent.sock")
    path = Path(text).expanduser()
    return lambda: UnixSocketTransport(path)


class UnixSocketTransport(WebSocketTransport):
    """A connection to a WebSocket server on a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__(_URL, RemoteOptions(), unix_path=path)
        self._path = path

    async def _open(self) -> FrameConnection:
        try:
            return await super()._open()
        except TransportError as exc:
            raise TransportError(str(exc).replace(_URL, f"unix:{self._path}")) from exc.__cause__
