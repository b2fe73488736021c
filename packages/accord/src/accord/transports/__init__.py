"""Transports: they carry frames, each one JSON text, between a client and an agent.

Read `base.py` first: the interface of all of them, `Transport` and `Receiver`. Agents use
`stdio.py` (pipes, and the file descriptors below them), clients `process.py`, with
`process_group.py` for the process and its descendants. `registry.py` finds the transport for a
URL: `websocket.py`, or `http.py` with `http_client.py` for the requests and `http_messages.py` for
what it knows of messages. `reconnecting.py` keeps a connection for clients that do not reconnect;
`memory.py` stays in a process.

Apart are `guardian.py`, which runs as a program, and what is imported on one platform or when it
is needed: `process_group_windows.py`, `http2.py`. A server imports `websocket_base.py` without the
client.
"""

__all__ = ()
