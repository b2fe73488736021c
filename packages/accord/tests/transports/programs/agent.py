"""An agent that runs its first argument while the transport has stdin and stdout, and echoes."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from accord.testing import Recorder
from accord.transports.base import Frame
from accord.transports.stdio import stdio

give_back = "keep" not in sys.argv


def print_everywhere() -> None:
    os.write(1, b"from os.write\n")
    print("from print")
    subprocess.run(["echo", "from a child"], check=True)
    print("from the old stdout", file=sys.__stdout__)
    libc = ctypes.CDLL(None)
    libc.puts(b"from C")
    libc.fflush(None)
    print("from ", end="")
    print("halves", flush=True)
    print("from stderr", file=sys.stderr)
    handler.handle(logging.makeLogRecord({"msg": "from a log"}))


def read_stdin() -> None:
    child = subprocess.run(["cat"], stdout=subprocess.PIPE, check=True)
    sys.stderr.write(f"left for children {child.stdout!r}, for us {sys.stdin.read()!r}\n")


def nothing() -> None:
    pass


def later() -> None:
    print("later")


WHAT: dict[str, Callable[[], None]] = {
    "print": print_everywhere,
    "read": read_stdin,
    "echo": nothing,
    "later": nothing,
}
what = sys.argv[1]
handler = logging.StreamHandler(sys.stdout)
if what == "print":
    print("before")
transport = stdio(restore=give_back)
WHAT[what]()


def peak() -> int:
    """Return the largest memory of this process, in KiB."""
    # Not `getrusage`: it includes the memory of the parent before the start.
    (found,) = re.findall(rb"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_bytes())
    return int(found)


class Echo(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.before = peak()

    def frames_received(self, frames: Sequence[Frame]) -> None:
        transport.write(frames)

    def frame_refused(self, limit: int, head: bytes = b"") -> None:
        transport.write([b'{"refused":%d,"grown":%d}' % (limit, peak() - self.before)])


async def main() -> None:
    heard = Echo()
    await transport.start(heard)
    await heard.until(lambda: heard.ended)
    await transport.aclose()


asyncio.run(main())
if what == "later":
    print("later")
