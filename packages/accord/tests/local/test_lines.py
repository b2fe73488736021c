"""Reading lines of a file reads no more than necessary, in little memory."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.local.files import READS_AT_ONCE, Reads, Roots, TooLarge, lines_of, read_lines
from requirement import requirement

MIB = 1024 * 1024
NUMBERS = st.none() | st.integers(0, 6)


def plainly(text: str, line: int | None, limit: int | None) -> str:
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]] + [part for part in parts[-1:] if part]
    first = max((line or 1) - 1, 0)
    return "".join(lines[first : None if limit is None else first + limit])


@requirement("R-FS-03")
@given(st.text("ä\n\r\x0c", max_size=12), NUMBERS, NUMBERS)
def test_lines_of_a_text_are_returned(text: str, line: int | None, limit: int | None) -> None:
    assert lines_of(text, line, limit) == plainly(text, line, limit)


@requirement("R-FS-03")
@settings(max_examples=50)
@given(st.binary(max_size=12), st.sampled_from([1, 9, 5000, 300_000]), NUMBERS, NUMBERS)
def test_lines_of_a_file_equal_those_of_its_text(
    piece: bytes, times: int, line: int | None, limit: int | None
) -> None:
    data = (piece.replace(b"a", b"\n") + b"x") * min(times, 600_000 // (len(piece) + 1))
    read, write = os.pipe()
    writer = threading.Thread(target=lambda: _write_and_close(write, data))
    writer.start()
    try:
        found = read_lines(read, "a", line, limit)
    finally:
        os.close(read)
        writer.join(30)
    assert found == plainly(data.decode("latin-1"), line, limit).encode("latin-1")


def _write_and_close(fd: int, data: bytes) -> None:
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
    except BrokenPipeError:
        pass
    finally:
        os.close(fd)


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """A file that does not fit into memory, mostly a hole."""
    file = tmp_path / "huge.txt"
    file.write_bytes(b"first\nsecond\n")
    os.truncate(file, 1 << 42)
    return file


@pytest.mark.skipif(os.name == "nt", reason="Windows fills the hole")
def test_line_of_a_huge_file_is_read_without_the_rest(huge: Path) -> None:
    roots = Roots([str(huge.parent)])
    assert roots.read("huge.txt", 2, 1) == "second\n"
    assert roots.read("huge.txt", 1, 2) == "first\nsecond\n"
    with pytest.raises(TooLarge):
        roots.read("huge.txt")
    with pytest.raises(TooLarge):
        roots.read("huge.txt", 3, 1)


@pytest.mark.skipif(os.name == "nt", reason="Windows fills the hole")
async def test_cancelled_read_ends_its_thread(huge: Path) -> None:
    with huge.open("r+b") as file:  # enough empty lines to make the search slow
        file.write(b"\n" * MIB)
    began, ended = threading.Event(), threading.Event()

    class Slow(Roots):
        def read(self, path: str, *args: object, **options: object) -> str:
            began.set()
            try:
                return super().read(path, 10**9, 1, stop=options["stop"])  # type: ignore[arg-type]
            finally:
                ended.set()

    reading = asyncio.ensure_future(Reads().read(Slow([str(huge.parent)]), "huge.txt"))
    assert await asyncio.to_thread(began.wait, 20)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await asyncio.to_thread(ended.wait, 20)


async def test_a_few_reads_run_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    running, most, lock, go = 0, 0, threading.Lock(), threading.Event()

    class Counting(Roots):
        def read(self, path: str, *args: object, **options: object) -> str:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
                if running == READS_AT_ONCE:
                    go.set()
            assert go.wait(20)
            with lock:
                running -= 1
            return super().read(path)

    roots, reads = Counting([str(tmp_path)]), Reads()
    async with asyncio.timeout(30):
        texts = await asyncio.gather(*(reads.read(roots, "a.txt") for _ in range(20)))
    assert texts == ["a"] * 20
    assert most == READS_AT_ONCE
