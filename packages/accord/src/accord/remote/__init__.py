"""Serves agents on the network: the ASGI application, its limits and its security.

Read `asgi.py` first: `asgi` makes an application of an agent, and `RemoteApp` passes requests to
`asgi_socket.py` (WebSocket) or `http_server.py` (streamable HTTP; each connection is in
`http_connection.py`, its streams in `http_stream.py`). `access.py` decides who may connect, and
how often; `guarded_transport.py` checks frames before the agent gets them. `monitor.py` watches
the connections, `access_log.py` and `telemetry.py` report them. `server.py` runs an application on
the sockets of `sockets.py`, and `listener.py` accepts their connections.

No log has messages, tokens, cookies or queries (R-SEC-10).
"""

from __future__ import annotations

__all__ = ()
