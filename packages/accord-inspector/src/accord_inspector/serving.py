"""Runs an inspection and its server until a signal ends both."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable

from accord.remote.server import ServerOptions, Stop, run_server
from accord.remote.sockets import address_of, open_tcp
from accord_inspector.access import PageAccess
from accord_inspector.app import InspectorApp
from accord_inspector.inspection import Inspection

PORT = 8766


def listening_socket(host: str, port: int | None) -> socket.socket:
    """Return a socket for the page; None is port 8766, or a free one if that is in use.

    Raise `OSError` if the address cannot be used.
    """
    if port is not None:
        return open_tcp(host, port)
    try:
        return open_tcp(host, PORT)
    except OSError:
        return open_tcp(host, 0)


async def serve_inspection(
    make: Callable[[], Inspection], opened: socket.socket, started: Callable[[str], None]
) -> int:
    """Run an inspection and serve its page until a signal or the inspection ends it.

    `started` is called with the address of the page, which has the token in it. Return the exit
    status.
    """
    stop = Stop()
    inspection = make()
    _on_signals(lambda number: inspection.pass_signal(number) or stop.request())
    host, port = address_of(opened)
    access = PageAccess(hosts=[host])
    shown = f"[{host}]" if ":" in host else host
    async with inspection:
        app = InspectorApp(inspection, inspection.hub, access)
        address = f"http://{shown}:{port}{access.start_path}"
        options = ServerOptions(passed=[opened], drain_s=0.0)
        inspection.spawn(_stop_when_finished(inspection, stop))

        def show(_: object) -> None:
            if not inspection.finished.is_set():
                started(address)

        await run_server(app, options, show, stop)
        if stop.at_once.is_set():
            os._exit(1)  # the agents of this process are ended by their guardian
    return inspection.exit_status


async def _stop_when_finished(inspection: Inspection, stop: Stop) -> None:
    await inspection.finished.wait()
    stop.requested.set()


def _on_signals(handle: Callable[[int], object]) -> None:
    """Call this for Ctrl-C, SIGTERM and SIGHUP."""
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None:
            continue
        if sys.platform == "win32":
            signal.signal(number, lambda got, _: loop.call_soon_threadsafe(handle, got))
        else:
            loop.add_signal_handler(number, handle, number)
