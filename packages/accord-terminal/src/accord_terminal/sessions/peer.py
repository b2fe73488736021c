"""Who is at the other end of a Unix socket (R-NAMED-06)."""

from __future__ import annotations

import os
import socket
import struct
import sys

_PEER = struct.Struct("3i")  # pid, uid, gid


def is_own_user(connection: socket.socket) -> bool:
    """Return whether the peer is a process of this user; elsewhere the folder's mode protects."""
    if sys.platform != "linux":
        return True
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _pid, uid, _gid = _PEER.unpack(peer)
    return uid == os.geteuid()
