"""Accepts the clients of this user on the socket of a session."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from accord import roles
from accord.errors import AccordError
from accord.transports.stdio import PipeTransport
from accord_terminal.sessions.owner.roles import OwnerRoleV1, OwnerRoleV2

if TYPE_CHECKING:
    from accord_terminal.sessions.owner.owner import Owner


log: logging.Logger = logging.getLogger("accord.sessions")

_MOST_CLIENTS = 200  # at once


async def serve_clients(
    owner: Owner, listening: socket.socket, waiting: Iterable[socket.socket] = ()
) -> None:
    """Serve those who wait and every client that connects, until cancelled."""
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    free = asyncio.Semaphore(_MOST_CLIENTS)
    async with asyncio.TaskGroup() as group:
        for connection in waiting:
            await free.acquire()
            serving = group.create_task(_serve(owner, connection.detach()), name="accord client")
            serving.add_done_callback(lambda _: free.release())
        while True:
            await free.acquire()
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as exc:  # for example too many open files
                log.warning("! a client was not accepted: %s", exc)
                free.release()
                await asyncio.sleep(0.1)
                continue
            serving = group.create_task(_serve(owner, connection.detach()), name="accord client")
            serving.add_done_callback(lambda _: free.release())


async def _serve(owner: Owner, fd: int) -> None:
    version_1, version_2 = OwnerRoleV1(owner), OwnerRoleV2(owner)
    try:
        os.write(fd, b"\n")  # an empty frame: the client knows that a living process has accepted
    except OSError:  # it has left
        os.close(fd)
        return
    try:
        await roles.serve(PipeTransport(fd, fd), version_1, version_2)
    except (AccordError, OSError):
        log.debug("= a client has left", exc_info=True)
    except Exception:
        log.exception("! a client is dropped")  # the others are not affected
    finally:
        for role in (version_1, version_2):
            if role.has_joined:
                await owner.leave(role.client)
