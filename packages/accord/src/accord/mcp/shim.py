"""A stdio MCP server that passes all bytes to and from the program that has declared it.

An agent starts this file with the environment variables `ACCORD_MCP_PORT` and `ACCORD_MCP_TOKEN`.
It imports nothing of Accord, to start fast in any environment.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

PORT = "ACCORD_MCP_PORT"
TOKEN = "ACCORD_MCP_TOKEN"


def main() -> None:
    """Connect, and pass bytes until one of the two sides ends."""
    try:
        port, token = int(os.environ[PORT]), os.environ[TOKEN]
    except (KeyError, ValueError):
        sys.exit(f"This command is started by an agent, with {PORT} and {TOKEN} in its environment")
    try:
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    except OSError as error:
        sys.exit(f"The program that provides these tools has ended: {error}")
    connection.settimeout(None)
    connection.sendall(token.encode() + b"\n")
    threading.Thread(target=_send, args=(connection,), daemon=True).start()
    while data := _received(connection):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    os._exit(0)  # a thread may still wait for stdin


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except OSError:
        return b""  # the other side has ended without reading everything


def _send(connection: socket.socket) -> None:
    try:
        while data := os.read(0, 65536):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side has ended, which the main thread sees too


if __name__ == "__main__":
    main()
