"""Starts a child in its group, one in its own session, and a daemon; prints all process ids.

`stubborn`: all of them ignore SIGTERM. `eof`: exits when its stdin ends; `done`: exits at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys

if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def start(*, session: bool = False, twice: bool = False) -> int:
    """Fork a process that waits for a signal; return its process id."""
    read, write = os.pipe()
    first = os.fork()
    if first == 0:
        if session:
            os.setsid()
        if twice and os.fork():
            os._exit(0)
        os.write(write, b"%d" % os.getpid())
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        while True:
            signal.pause()
    if twice:
        os.waitpid(first, 0)
    return int(os.read(read, 20))


children = [start(), start(session=True), start(session=True, twice=True)]
print(json.dumps({"pids": [os.getpid(), *children]}), flush=True)
if "done" in sys.argv:
    sys.exit()
if "eof" in sys.argv:
    sys.stdin.read()
    sys.exit()
while True:
    signal.pause()
