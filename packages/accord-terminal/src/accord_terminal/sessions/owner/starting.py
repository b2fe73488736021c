"""While the agent of an owner starts: who waits for it, and what ends the start."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from accord.remote.sockets import open_unix, remove_unix
from accord_terminal.sessions.errors import SessionsError
from accord_terminal.sessions.owner.owner import Owner
from accord_terminal.sessions.owners import STARTS, STOP

log: logging.Logger = logging.getLogger("accord.sessions")

_STDOUT = 1  # a pipe to the program that has started the owner
_MOST_WAITING = 200


class Starting:
    """Cancels a task, which starts the agent, when the owner has to stop (R-NAMED-03).

    Clients that connect wait for the agent. The start ends when the last of them has left, too.
    """

    def __init__(self, owner: Owner, path: Path, task: asyncio.Task[Any]) -> None:
        self.listening: socket.socket = open_unix(path)
        self.is_stopped = False
        self._owner = owner
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._waiting: set[socket.socket] = set()
        self._has_starter = True
        self._has_ended = False
        self.listening.setblocking(False)
        owner.end_reason.add_done_callback(self._stop)
        self._loop.add_reader(self.listening, self._accept)
        with suppress(OSError):  # not a pipe: it is not known whether the starter waits
            self._loop.add_reader(_STDOUT, self._starter_left)

    def end(self) -> list[socket.socket]:
        """Return the clients that wait, whom the owner serves now."""
        if self._has_ended:
            return []
        self._has_ended = True
        self._owner.end_reason.remove_done_callback(self._stop)
        self._loop.remove_reader(self.listening)
        self._loop.remove_reader(_STDOUT)
        for connection in self._waiting:
            self._loop.remove_reader(connection)
        waiting, self._waiting = self._waiting, set()
        return [*waiting]

    def close(self) -> None:
        """Drop the clients that wait, and end listening."""
        for connection in self.end():
            connection.close()
        if self.listening.fileno() >= 0:
            remove_unix(self.listening)
            self.listening.close()

    def _stop(self, _: asyncio.Future[str]) -> None:
        self.is_stopped = True
        self._task.cancel()

    def _accept(self) -> None:
        try:
            connection, _ = self.listening.accept()
        except BlockingIOError:
            return
        except OSError as exc:  # for example too many open files
            log.warning("! no more clients are accepted until the agent has started: %s", exc)
            self._loop.remove_reader(self.listening)
            return
        connection.setblocking(False)
        self._waiting.add(connection)
        self._loop.add_reader(connection, self._heard, connection)
        if len(self._waiting) == _MOST_WAITING:
            self._loop.remove_reader(self.listening)
        with suppress(OSError):  # it has left
            connection.send(STARTS)

    def _heard(self, connection: socket.socket) -> None:
        try:
            said = connection.recv(len(STOP))
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if said == STOP:
            with suppress(SessionsError):  # its record was deleted
                self._owner.close_session()
            self._owner.stop("the session was closed")
        self._loop.remove_reader(connection)
        self._waiting.discard(connection)
        connection.close()
        self._watch_waiting()

    def _starter_left(self) -> None:
        self._loop.remove_reader(_STDOUT)
        self._has_starter = False
        self._watch_waiting()

    def _watch_waiting(self) -> None:
        if not self._waiting and not self._has_starter:
            self._owner.stop("no command waited for its agent any more")
