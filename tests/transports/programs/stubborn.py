"""A process that does not obey, with a child that does not either; says who they are."""

from __future__ import annotations

import os
import signal
import sys

signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    print(f'{{"pids":[{os.getpid()},{child}]}}', flush=True)
if "leave" in sys.argv and child:
    sys.exit(7)
while True:
    signal.pause()
