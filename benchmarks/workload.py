"""What agents and clients say to each other; the same bytes in every implementation."""

from __future__ import annotations

import asyncio

CHUNKS_PER_TURN = 200
UPDATES_PER_TURN = 5  # those that are no chunk: plan, tool call and its updates
FILE_BYTES = 8 * 1024
DIFF_BYTES = 10 * 1024  # on each side of the diff

_SOURCE = (
    "def handler(request, *, timeout=30.0):\n"
    '    """Return the "value" of a request — é → ok."""\n'
    '    path = "C:\\\\dir\\\\file.txt"\n'
    "    for key, value in request.items():\n"
    "        if key not in seen and value != '':\n"
    "            yield (key, value)\t# comment\n\n"
)


def chunk_text(number: int) -> str:
    """Return the 40 characters of a message chunk, each different."""
    return f"chunk {number:08d} lorem ipsum dolor sit am."


def source_text(size: int) -> str:
    """Return `size` characters that look like code: newlines, quotes, some beyond ASCII."""
    return (_SOURCE * (size // len(_SOURCE) + 1))[:size]


_files: dict[str, str] = {}


def file_text(path: str) -> str:
    """Return the content of a file; its name is its size."""
    name = path.rsplit("/", 1)[1]
    if name not in _files:
        _files[name] = source_text(int(name))
    return _files[name]


class Barrier:
    """Lets all go on once as many wait as there are to be."""

    def __init__(self) -> None:
        self._waiting = 0
        self._complete: asyncio.Event | None = None

    async def wait(self, count: int) -> None:
        self._complete = self._complete or asyncio.Event()
        self._waiting += 1
        if self._waiting >= count:
            self._complete.set()
        await self._complete.wait()


def percentile(values: list[float], percent: float) -> float:
    """Return the value below which `percent` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


def spread(times_ns: list[float]) -> dict[str, float]:
    """Return the median and the 99th percentile, in µs."""
    return {
        "p50_us": percentile(times_ns, 50) / 1e3,
        "p99_us": percentile(times_ns, 99) / 1e3,
    }
