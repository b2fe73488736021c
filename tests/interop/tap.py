"""Run a command and copy the frames in both directions to a file."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


def copy(source: IO[bytes], target: IO[bytes], mark: bytes, log: IO[bytes]) -> None:
    for line in source:
        log.write(mark + line)
        log.flush()
        try:
            target.write(line)
            target.flush()
        except BrokenPipeError:
            break
    target.close()


def main(path: str, command: list[str]) -> int:
    with Path(path).open("ab", buffering=0) as log:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin
        assert child.stdout
        threading.Thread(
            target=copy, args=(sys.stdin.buffer, child.stdin, b"> ", log), daemon=True
        ).start()
        copy(child.stdout, sys.stdout.buffer, b"< ", log)
        return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
