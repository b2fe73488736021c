"""A process that searches the end of a large recording while this one searches its beginning.

Python searches in one thread at a time: with a second process, two processors do.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from array import array
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

_PROGRAM = "accord_trace.second_search_program"


class Block(Struct, frozen=True, array_like=True):
    """Messages that are searched at once: those from `first` to `end`, in the part `part`.

    Their lines have so many bytes, from `place` on in this part.
    """

    first: int
    end: int
    part: int
    place: int
    size: int


class SearchRequest(Struct, frozen=True):
    """What the process searches; either `text` or `json_path` is empty.

    The offsets of the lines of all blocks follow, as 64-bit numbers, and their flags.
    """

    text: str
    json_path: str
    paths: list[str]
    blocks: list[Block]


class SecondSearch:
    """Searches blocks from the last one to the first one.

    What was found from message `done_from` on is known. If the process fails, nothing more is.
    """

    def __init__(self, request: SearchRequest, offsets: array[int], flags: array[int]) -> None:
        self.end: int = request.blocks[-1].end
        self.done_from: int = self.end
        self._found: list[tuple[int, Sequence[int]]] = []  # the first message of a block, numbers
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self._thread = threading.Thread(
            target=self._run, args=(request, offsets, flags), daemon=True
        )
        self._thread.start()

    def rows_between(self, first: int, end: int) -> list[int]:
        """Return the numbers of the messages found from `first` to `end`, which must be known."""
        return [row for _, rows in reversed(self._found) for row in rows if first <= row < end]

    def stop(self) -> None:
        """End the process; nothing more becomes known."""
        self._is_over = True
        if self._process is not None:
            with suppress(OSError):
                self._process.kill()

    def _run(self, request: SearchRequest, offsets: array[int], flags: array[int]) -> None:
        with suppress(OSError):
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-m", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Ctrl-C is for this process, which ends it.
                process_group=0 if sys.platform != "win32" else None,
            )
            with process:
                if self._is_over:
                    process.kill()
                assert process.stdin is not None
                assert process.stdout is not None
                text = msgspec.json.encode(request)
                process.stdin.write(len(text).to_bytes(8, "little") + text)
                process.stdin.write(memoryview(offsets))
                process.stdin.write(memoryview(flags))
                process.stdin.flush()
                while line := process.stdout.readline():
                    first, *rows = map(int, line.split())
                    self._found.append((first, rows))
                    self.done_from = first
