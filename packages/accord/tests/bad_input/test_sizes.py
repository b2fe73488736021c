"""Large lines, and lines over the limit."""

from __future__ import annotations

from bad_input.raw import MIB, Program, agent, answer, still_answers
from requirement import requirement


def write_large(running: Program, head: bytes, size: int, tail: bytes) -> None:
    """Write a line of a given size without holding it in memory."""
    running.write(head)
    piece = b"x" * MIB
    left = size - len(head) - len(tail)
    while left > 0:
        running.write(piece[:left])
        left -= MIB
    running.write(tail)


HEAD = b'{"jsonrpc":"2.0","id":1,"method":"_echo","params":"'


@requirement("R-STDIO-11")
def test_line_of_60_mb_is_read_and_written() -> None:
    size = 60_000_000
    with agent() as running:
        write_large(running, HEAD, size, b'"}\n')
        response = running.line()
        assert response.startswith(b'{"jsonrpc":"2.0","id":1,"result":"xxx')
        assert response.count(b"x") == size - len(HEAD) - len(b'"}\n')
        assert still_answers(running)


@requirement("R-STDIO-11", "R-ERR-03")
def test_line_over_the_limit_is_rejected_and_not_held_in_memory() -> None:
    with agent() as running:
        write_large(running, HEAD, 200 * MIB, b"")
        refusal = running.receive()  # at the limit, not at the end of the line
        assert (refusal["id"], refusal["error"]["code"]) == (1, -32600)
        running.write(b'"}\n')
        assert still_answers(running)
        assert running.grown_mib() < 150


@requirement("R-STDIO-11")
def test_every_line_over_the_limit_is_rejected_once() -> None:
    with agent() as running:
        for _ in range(2):
            write_large(running, HEAD, 65 * MIB, b'"}\n')
            assert running.receive()["error"]["code"] == -32600
        assert still_answers(running)
        assert running.grown_mib() < 150


def test_line_that_arrives_byte_by_byte_is_one_line() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"_echo","params":"\xc3\xa9"}\n'
    with agent() as running:
        for number in range(len(line)):
            running.write(line[number : number + 1])
        assert running.receive() == answer(1, "é")


def test_many_lines_in_one_read_are_answered_in_order() -> None:
    with agent() as running:
        running.write(
            b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"_echo"}\n' % n for n in range(1000))
        )
        assert [running.receive()["id"] for _ in range(1000)] == list(range(1000))


@requirement("R-ERR-05")
def test_open_requests_are_all_answered_and_those_over_the_limit_with_an_error() -> None:
    count, limit = 17_000, 16_384
    with agent() as running:
        running.write(
            b"".join(
                b'{"jsonrpc":"2.0","id":%d,"method":"_hold","params":%d}\n' % (number, number)
                for number in range(count)
            ),
            reading=True,
        )
        running.send({"jsonrpc": "2.0", "method": "_release"})
        answers = {message["id"]: message for message in (running.receive() for _ in range(count))}
        refused = [answers.pop(number)["error"]["code"] for number in range(limit, count)]
        assert refused == [-32603] * (count - limit)
        assert answers == {number: answer(number, number) for number in range(limit)}
        assert running.grown_mib() < 100
