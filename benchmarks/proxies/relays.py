"""Runs a program behind processes that only copy bytes: `relays.py COUNT COMMAND…`.

They show what the processes of a chain cost without reading or changing a message.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys

READ_BYTES = 64 * 1024


def relay(child: subprocess.Popen[bytes]) -> None:
    """Copy stdin to the child and its output to stdout until one of them ends."""
    assert child.stdin is not None
    assert child.stdout is not None
    there, back = child.stdin.fileno(), child.stdout.fileno()
    poll = select.epoll()
    for fd in (0, back):
        poll.register(fd, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            data = os.read(fd, READ_BYTES)
            if not data:
                return
            target = there if fd == 0 else 1
            while data:
                data = data[os.write(target, data) :]


def main(count: int, command: list[str]) -> None:
    """Be the first of so many relays in front of a program."""
    if count > 1:
        command = [sys.executable, "-S", __file__, str(count - 1), *command]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    relay(child)
    child.stdin.close()  # type: ignore[union-attr]  # it is a pipe
    child.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
