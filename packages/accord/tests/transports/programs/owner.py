"""Starts a family, as a command or as an agent; prints the output of the family, then waits."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from accord.local.command import LocalCommand
from accord.testing import Recorder
from accord.transports.process import process

FAMILY = [sys.executable, "-S", str(Path(__file__).parent / "family.py")]


def _write(text: bytes) -> None:
    os.write(1, text)


async def main() -> None:
    kind, *how = sys.argv[1:]
    if "fork" in how:
        # It keeps inherited descriptors open, and outlives this process.
        before = LocalCommand(["true"], cwd="/")
        await before.wait()
        if os.fork() == 0:
            os.setsid()
            os.close(1)
            os.read(0, 1)
            os._exit(0)
    if kind == "command":
        command = LocalCommand([*FAMILY, *how], cwd="/", on_output=_write)
        await command.wait()
    else:
        transport = process(*FAMILY, *how, stop_times_s=(0.5, 0.5, 2.0))()
        heard = Recorder()
        await transport.start(heard)
        await heard.until(lambda: bool(heard.frames))
        os.write(1, bytes(heard.frames[0]) + b"\n")
        await heard.until(lambda: heard.ended)


asyncio.run(main())
