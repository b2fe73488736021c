"""Asks the server of `forked.py` for a program with the files of this process; has its status.

It imports little, so that it starts quickly.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import sys
from array import array


def main(path: str, words: list[str]) -> None:
    server = _socket.socket(_socket.AF_UNIX)
    server.connect(path)
    data = marshal.dumps([words, os.getcwd(), dict(os.environ), False, False])  # noqa: PTH109
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", [0, 1, 2]))
    server.sendmsg([len(data).to_bytes(4, "big")], [rights])
    server.sendall(data)
    program = _number(server)
    for number in (_signal.SIGTERM, _signal.SIGINT):
        _signal.signal(number, lambda number, _: os.kill(program, number))
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    status = _number(server)
    if status < 0:
        _signal.signal(-status, _signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _number(server: _socket.socket) -> int:
    return int.from_bytes(server.recv(4, _socket.MSG_WAITALL), "big", signed=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
