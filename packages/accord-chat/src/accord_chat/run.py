"""Runs `accord chat` on the screen."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time

from accord.local.run import run_program
from accord_chat.pace import collect_in_pauses
from accord_chat.start import ChatOptions, prepare
from accord_chat.view.app import ChatApp

CHECK_S = 1.0
# Keys are read, and the screen is written, in threads of Textual, which wait for this one.
SWITCH_S = 0.0005
HUNG_UP = 129  # as shells report SIGHUP


def run_chat(options: ChatOptions) -> int:
    """Run the program; return its exit status."""
    start = prepare(options)
    app = ChatApp(start.make_chat, lists_sessions=options.resume, notifies=start.notifies)
    threading.Thread(target=_leave_without_terminal, name="accord terminal", daemon=True).start()
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        status = run_program(_run(app))
    finally:
        sys.setswitchinterval(before_s)
        start.saved.release()
    if app.failure is not None:
        raise app.failure
    return status


def _leave_without_terminal() -> None:
    """End the process some time after its terminal was closed.

    Textual can then wait forever for a thread that cannot write any more. Drafts are saved while
    they are typed, and agents end with this process.
    """
    while os.isatty(1):
        time.sleep(CHECK_S)
    time.sleep(CHECK_S)  # for an orderly end
    os._exit(HUNG_UP)


async def _run(app: ChatApp) -> int:
    collecting = asyncio.create_task(collect_in_pauses(app.pace))
    try:
        status = await app.run_async()
    finally:
        collecting.cancel()
        await app.aclose()
    return status or app.return_code or 0
