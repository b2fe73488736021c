"""A component of a chain, as the conductor under test starts it: a pipe to the kit, which plays it.

The arguments are the port of the kit on this machine, a token, and the name of the component.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

_BYTES = 65536


def main() -> None:
    """Copy stdin to the kit and the bytes of the kit to stdout, until one of them ends."""
    port, token, name = sys.argv[1:4]
    with socket.create_connection(("127.0.0.1", int(port))) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall(f"{token} {name}\n".encode())
        threading.Thread(target=_copy_stdin, args=(line,), daemon=True).start()
        while data := line.recv(_BYTES):
            while data:
                data = data[os.write(1, data) :]
    # Stdin may still be open: the kit has ended this component.
    os._exit(0)


def _copy_stdin(line: socket.socket) -> None:
    try:
        while data := os.read(0, _BYTES):
            line.sendall(data)
        line.shutdown(socket.SHUT_WR)
    except OSError:
        os._exit(1)


if __name__ == "__main__":
    main()
