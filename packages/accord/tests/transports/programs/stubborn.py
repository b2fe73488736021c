"""A process that ignores SIGTERM, with a child that does too; prints both process ids."""

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
