from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from accord.jsonrpc.message import LineReader
from requirement import requirement

LIMIT = 8


def read(*pieces: bytes, limit: int = LIMIT) -> tuple[list[bytes], int]:
    """Return the lines of a stream that arrives in pieces, and the number of rejected lines."""
    reader = LineReader(limit)
    lines = [line for piece in pieces for line in reader.feed(piece)]
    lines += reader.finish()
    return [bytes(line) for line in lines], len(reader.refused)


@requirement("R-STDIO-03")
def test_each_newline_ends_a_line() -> None:
    assert read(b"a\nb\n") == ([b"a", b"b"], 0)


def test_line_that_arrives_in_pieces_is_joined() -> None:
    assert read(b"a", b"b", b"\nc", b"d\n") == ([b"ab", b"cd"], 0)


@requirement("R-STDIO-11")
def test_last_line_needs_no_newline() -> None:
    assert read(b"a\nb") == ([b"a", b"b"], 0)


def test_newline_ends_a_line_that_has_begun() -> None:
    assert read(b"a", b"\n", b"\n") == ([b"a", b""], 0)


def test_line_at_the_limit_is_accepted() -> None:
    assert read(b"x" * LIMIT + b"\n") == ([b"x" * LIMIT], 0)
    assert read(b"x" * LIMIT, b"\n") == ([b"x" * LIMIT], 0)


def test_longer_line_is_rejected_and_the_next_one_accepted() -> None:
    assert read(b"x" * (LIMIT + 1) + b"\na\n") == ([b"a"], 1)
    assert read(b"x" * LIMIT, b"x\na\n") == ([b"a"], 1)


def test_longer_line_is_rejected_before_it_ends() -> None:
    reader = LineReader(LIMIT)
    assert reader.feed(b"x" * (LIMIT + 1)) == []
    assert [head[:2] for head in reader.refused] == [b"xx"]


def test_longer_line_is_rejected_once_however_long_it_gets() -> None:
    assert read(*[b"x" * LIMIT] * 100, b"\na\n") == ([b"a"], 1)


def test_longer_line_without_a_newline_is_not_the_last_line() -> None:
    assert read(b"x" * LIMIT, b"x") == ([], 1)


def test_caller_can_keep_a_line_that_arrived_in_pieces() -> None:
    reader = LineReader(LIMIT)
    reader.feed(b"a")
    (line,) = reader.feed(b"b\nc")
    reader.feed(b"d\n")
    assert line == b"ab"


@given(st.binary(max_size=60).map(lambda raw: raw.replace(b"\r", b"\n")), st.data())
def test_result_does_not_depend_on_the_pieces(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    bounds = [0, *cuts, len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(bounds)]
    whole = stream.split(b"\n")
    if not whole[-1]:
        whole.pop()
    fitting = [line for line in whole if len(line) <= LIMIT]
    assert read(*pieces) == (fitting, len(whole) - len(fitting))
