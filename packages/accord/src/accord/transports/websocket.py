"""The WebSocket transport of clients: to a remote agent, or to one on a Unix socket."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus

from accord.errors import ConnectionLost, ConnectionRefused, TransportError
from accord.text.excerpt import excerpt, one_line
from accord.text.secrets import plain_url
from accord.transports.base import (
    TransportFactory,
)
from accord.transports.registry import (
    DEFAULT_PATH,
    PING_S,
    REMOTE_FRAME_BYTES,
    CookieStore,
    RemoteOptions,
    advice_for,
    login_headers,
    redirect_error,
    remote_url,
    tls_reason,
)
from accord.transports.websocket_base import (
    FrameConnection,
    SocketTransport,
)

log: logging.Logger = logging.getLogger("accord.transports.websocket")

HANDSHAKE_S = 10.0  # R-WS-15

_NO_WEBSOCKET = "the server does not accept WebSocket connections here"


def websocket(
    url: str,
    options: RemoteOptions | None = None,
    *,
    frame_bytes: int = REMOTE_FRAME_BYTES,
    ping_interval_s: float | None = PING_S,
    ping_timeout_s: float | None = PING_S,
) -> TransportFactory:
    """Return what connects to an agent at a `ws://` or `wss://` URL.

    An empty path means `/acp`. Redirects are not followed. Raises `ValueError` for a URL that
    must not be used.
    """
    options = options or RemoteOptions()
    if options.cookies is None:  # transports of one factory share the cookies
        options = structs.replace(options, cookies=CookieStore())
    address = remote_url(url, options)
    if urlsplit(address).scheme.lower() not in ("ws", "wss"):
        raise ValueError(f"Expected a URL with ws or wss, got {excerpt(url)!r}")
    return lambda: WebSocketTransport(
        address,
        options,
        frame_bytes=frame_bytes,
        ping_interval_s=ping_interval_s,
        ping_timeout_s=ping_timeout_s,
    )


class WebSocketTransport(SocketTransport):
    """A connection to a WebSocket server; one text message is one frame.

    `connection_id` is what the server calls the connection, None if it does not say (R-WS-10).
    """

    def __init__(
        self,
        url: str,
        options: RemoteOptions,
        *,
        frame_bytes: int = REMOTE_FRAME_BYTES,
        ping_interval_s: float | None = PING_S,
        ping_timeout_s: float | None = PING_S,
        unix_path: Path | None = None,
    ) -> None:
        super().__init__(
            frame_bytes=frame_bytes,
            ping_interval_s=ping_interval_s,
            ping_timeout_s=ping_timeout_s,
        )
        self._url = url
        self._options = options
        self._cookies = options.cookies or CookieStore()
        self._unix: dict[str, Any] = (
            {} if unix_path is None else {"unix": True, "path": str(unix_path)}
        )
        self.connection_id: str | None = None

    async def _open(self) -> FrameConnection:
        options = self._options
        secure: dict[str, Any] = {}
        if options.ca_file is not None and self._url.startswith("wss:"):
            secure["ssl"] = ssl.create_default_context(cafile=options.ca_file)
        headers = login_headers(options)
        if cookies := self._cookies.header(self._url):
            headers["Cookie"] = cookies
        opening = _Connect(
            self._url,
            compression=None,
            additional_headers=headers,
            open_timeout=HANDSHAKE_S,
            max_size=self.frame_bytes,
            proxy=True if options.trust_env else None,
            create_connection=_Connection,
            logger=log,
            **secure,
            **self._unix,
        )
        address = plain_url(self._url)
        try:
            connection = await opening
        except InvalidStatus as exc:
            status = exc.response.status_code
            raise ConnectionRefused(_refusal(self._url, exc), status=status) from None
        except (InvalidHandshake, TimeoutError, OSError) as exc:
            reason = tls_reason(exc) or one_line(str(exc)) or type(exc).__name__
            raise TransportError(f"Cannot connect to {address}: {reason}") from exc
        assert isinstance(connection, _Connection)
        assert connection.response is not None
        self._cookies.take(self._url, connection.response.headers.get_all("Set-Cookie"))
        self.connection_id = connection.response.headers.get("Acp-Connection-Id")
        return connection

    def _error(self, connection: FrameConnection) -> Exception | None:
        sent, received = connection.protocol.close_sent, connection.protocol.close_rcvd
        if received is not None and received.code == 1000:
            return None
        address = plain_url(self._url)
        if received is not None:
            shown, reason = _code(received.code), one_line(excerpt(received.reason))
            why = f" ({reason})" if reason and not shown.endswith(reason) else ""
            return ConnectionLost(f"{address} closed the connection: {shown}{why}")
        if sent is not None and sent.code != 1000:
            return ConnectionLost(f"The connection to {address} was closed: {_code(sent.code)}")
        return ConnectionLost(f"The connection to {address} was lost: {_code(1006)}")


class _Connect(connect):
    """Opens a connection without following redirects (R-WS-12)."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class _Connection(FrameConnection, ClientConnection):
    """A client's connection."""


def _refusal(url: str, exc: InvalidStatus) -> str:
    """Return the error message for a server that did not accept the connection."""
    response = exc.response
    status = response.status_code
    if 300 <= status < 400:
        return redirect_error(url, response.headers.get("Location"))
    advice = advice_for(status, response.reason_phrase, _426=_NO_WEBSOCKET)
    return f"{plain_url(url)} refused the connection with status {status}{advice}"


def _code(code: int) -> str:
    known = {
        1001: "the server is going away",
        1002: "a protocol error",
        1006: "no close message arrived",
        1008: "the server refuses to continue",
        1009: "a message was too large",
        1011: "an internal error, or no answer to a ping",
    }
    return f"code {code}" + (f", {known[code]}" if code in known else "")


# The WebSocket transport on a Unix socket: an agent that another process of this user serves.

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
