"""The sockets that a server listens on: of TCP, of this user only, or passed by systemd."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

BACKLOG = 100
_FIRST_FD = 3  # sd_listen_fds(3)
_PROBE_S = 1.0
_PEER = struct.Struct("3i")  # pid, uid, gid


def open_tcp(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; raise `OSError` if it cannot be used."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family = found[0][0]
    return socket.create_server((host, port), family=family, backlog=BACKLOG, reuse_port=False)


def open_unix(path: Path) -> socket.socket:
    """Return a socket at a path that only this user can connect to (R-SEC-13).

    A socket file that a server has left is replaced. Raises `OSError` if another server listens
    there, or if the file is not a socket.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise OSError(errno.EAFNOSUPPORT, "This system has no Unix sockets for Python")
    _remove_stale(path)
    opened = _OwnUserSocket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        opened.bind(os.fspath(path))
        path.chmod(0o600)  # before `listen`: earlier connections are refused
        opened.file = _identity(path)
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


def remove_unix(opened: socket.socket) -> None:
    """Remove the socket file, unless another server has replaced it."""
    path = Path(opened.getsockname())
    with suppress(OSError):
        if isinstance(opened, _OwnUserSocket) and opened.file == _identity(path):
            path.unlink()


def passed_sockets(environ: MutableMapping[str, str] = os.environ) -> list[socket.socket]:
    """Return the listening sockets that systemd has passed to this process, often none.

    Removes the variables that describe them, which are not for agents. Raises `OSError` for what
    is not a listening socket.
    """
    pid, count = environ.get("LISTEN_PID"), environ.get("LISTEN_FDS")
    if pid != str(os.getpid()) or count is None or not count.isdecimal():
        return []
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        environ.pop(name, None)
    return [_passed(fd) for fd in range(_FIRST_FD, _FIRST_FD + int(count))]


def is_unix(opened: socket.socket) -> bool:
    """Return whether a socket is not one of TCP."""
    return opened.family not in (socket.AF_INET, socket.AF_INET6)


def address_of(opened: socket.socket) -> tuple[str, int | None]:
    """Return the host and the port of a socket; a path and None for one of this machine."""
    name: Any = opened.getsockname()
    return (os.fsdecode(name), None) if is_unix(opened) else (name[0], name[1])


def _passed(fd: int) -> socket.socket:
    os.set_inheritable(fd, False)
    opened = socket.socket(fileno=fd)
    listens = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if opened.type != socket.SOCK_STREAM or not listens:
        raise OSError(errno.EINVAL, f"File descriptor {fd} is not a listening stream socket")
    return _OwnUserSocket(fileno=opened.detach()) if is_unix(opened) else opened


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, f"{path} exists and is not a socket")
    if _is_listening(path):
        raise OSError(errno.EADDRINUSE, f"Another server listens on {path}")
    path.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # busy, or of another user
    return True


class _OwnUserSocket(socket.socket):
    """Accepts connections from processes of this user, and closes others.

    The mode of the socket file is not enough: systemd can pass a socket with another one. Where
    the system does not name the peer's user, only the mode protects.
    """

    file: tuple[int, int] | None = None  # what `open_unix` has made

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            connection, address = super().accept()
            if _is_own_user(connection):
                return connection, address
            connection.close()


def _is_own_user(connection: socket.socket) -> bool:
    if sys.platform != "linux":
        return True
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _pid, uid, _gid = _PEER.unpack(peer)
    return uid == os.geteuid()
