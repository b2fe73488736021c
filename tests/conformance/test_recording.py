"""Recorded conversations: what is written is read again, and plain dumps are understood."""

from __future__ import annotations

import pytest

from accord.conformance.recording import End, Recorded, read, write

ASK = b'{"jsonrpc":"2.0","id":1,"method":"session/list"}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"sessions":[]}}'


@pytest.mark.parametrize("text", [ASK, b"no JSON at all", b'{"caf\xe9', "{\u00e9}".encode()])
def test_what_is_written_is_read_again(text: bytes) -> None:
    line = write(0.25, "agent", text)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert list(read([line])) == [Recorded(0.25, "agent", text)]


def test_end_of_a_side_is_read() -> None:
    assert list(read([b'{"time":1,"from":"agent","end":true}'])) == [End("agent")]


def test_frame_may_be_an_object() -> None:
    (found,) = read([b'{"direction":"sent","frame":{"jsonrpc":"2.0","method":"_x"}}'])
    assert found == Recorded(0.0, "client", b'{"jsonrpc":"2.0","method":"_x"}')


def test_record_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2"):
        list(read([b"", b'{"from":"me","frame":"x"}']))


@pytest.mark.parametrize(("mine", "theirs"), [("> ", "< "), ("->", "<-"), ("client: ", "agent: ")])
def test_prefixes_say_who_wrote(mine: str, theirs: str) -> None:
    found = list(read([mine.encode() + ANSWER, theirs.encode() + ASK]))
    assert found == [Recorded(0.0, "client", ANSWER), Recorded(0.0, "agent", ASK)]


def test_writers_are_guessed_from_what_they_write() -> None:
    create = b'{"jsonrpc":"2.0","id":1,"method":"terminal/create","params":{}}'
    created = b'{"jsonrpc":"2.0","id":1,"result":{"terminalId":"x"}}'
    noise = b"Loading..."
    lines = [noise, ASK, create, created, b"", ANSWER]
    found = [item.sender for item in read(lines)]
    # Both wait for the answer to 1: what it says tells to whom it goes.
    assert found == ["agent", "client", "agent", "client", "agent"]


def test_mark_of_the_byte_order_is_no_part_of_the_first_frame() -> None:
    (found,) = read([b"\xef\xbb\xbf> " + ASK])
    assert found == Recorded(0.0, "client", ASK)
