"""The first program in a sandbox: sets limits, forwards ports to Unix sockets, starts the agent.

It runs with `python -I -S` and imports the standard library only:

    inside.py --limit nofile=4096 --forward 8088=/run/accord/gateway.sock -- COMMAND…
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
import threading
from collections.abc import Sequence

_CHUNK = 65536
_BACKLOG = 64
_STACK = 128 * 1024
_NOT_FOUND = 127


def main(words: Sequence[str]) -> None:
    """Do what the words say, and become the command after `--`."""
    at = words.index("--")
    options, command = words[:at], list(words[at + 1 :])
    forwards: list[tuple[socket.socket, str]] = []
    limits: list[tuple[int, int]] = []
    for name, value in zip(options[::2], options[1::2], strict=True):
        key, _, setting = value.partition("=")
        if name == "--forward":
            forwards.append((_listen(int(key)), setting))
        else:
            limits.append((getattr(resource, f"RLIMIT_{key.upper()}"), int(setting)))
    if forwards and os.fork() == 0:
        _forward(forwards)
    for listening, _ in forwards:
        listening.close()
    for kind, most in limits:
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(kind, (most, most))
    try:
        os.execvp(command[0], command)
    except OSError as exc:
        sys.stderr.write(f"accord sandbox: cannot start {command[0]}: {exc.strerror}\n")
        sys.stderr.flush()
        os._exit(_NOT_FOUND)


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(_BACKLOG)
    return listening


def _forward(forwards: Sequence[tuple[socket.socket, str]]) -> None:
    """Carry connections until the sandbox ends."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # the agent's pipes end with the agent
        os.dup2(null, fd)
    threading.stack_size(_STACK)
    for listening, path in forwards[1:]:
        threading.Thread(target=_accept, args=(listening, path)).start()
    _accept(*forwards[0])
    os._exit(0)


def _accept(listening: socket.socket, path: str) -> None:
    while True:
        try:
            inner, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_connect, args=(inner, path), daemon=True).start()


def _connect(inner: socket.socket, path: str) -> None:
    outer = socket.socket(socket.AF_UNIX)
    try:
        outer.connect(path)
        threading.Thread(target=_copy, args=(outer, inner), daemon=True).start()
    except (OSError, RuntimeError):
        inner.close()
        outer.close()
        return
    _copy(inner, outer)


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until the source ends; the other direction continues."""
    try:
        while data := source.recv(_CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main(sys.argv[1:])
