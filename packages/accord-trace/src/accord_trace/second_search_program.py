"""The process that a `SecondSearch` starts: it searches blocks from the last one on."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from accord_trace.columns import flag_table
from accord_trace.json_path import JsonPath
from accord_trace.second_search import SearchRequest
from accord_trace.text_search import Lines, TextSearch


def run(source: BinaryIO, target: BinaryIO) -> None:
    """Search what is requested; write a line for each block: its first message, what was found."""
    size = int.from_bytes(source.read(8), "little")
    request = msgspec.json.decode(source.read(size), type=SearchRequest)
    start = request.blocks[0].first
    count = request.blocks[-1].end - start
    offsets = array("Q")
    offsets.frombytes(source.read(count * offsets.itemsize))
    search = _search(request, source.read(count))
    files = [Path(path).open("rb", buffering=0) for path in request.paths]  # noqa: SIM115  # to the end
    for block in reversed(request.blocks):
        file = files[block.part]
        file.seek(block.place)
        data = file.read(block.size)
        if len(data) < block.size:
            return  # it was replaced
        lines = Lines(data, offsets, block.first - start, block.end - start)
        found = [start + row for row in search(lines)]
        target.write(b" ".join(str(row).encode() for row in (block.first, *found)) + b"\n")
        target.flush()


def _search(request: SearchRequest, flags: bytes) -> Callable[[Lines], Sequence[int]]:
    if request.text:
        return TextSearch(request.text).rows_in
    path = JsonPath(request.json_path)
    may_fit = flags.translate(flag_table(path.may_fit))
    return lambda lines: path.rows_in(lines, lines.rows, may_fit.__getitem__)


if __name__ == "__main__":
    run(sys.stdin.buffer, sys.stdout.buffer)
