"""Back-pressure: a side that writes more than the other reads has to wait, in bounded memory."""

from __future__ import annotations

import json
import signal

import pytest

from bad_input.raw import (
    Program,
    agent,
    answer,
    notification,
    program,
    prompt,
    request,
    still_answers,
)
from requirement import requirement

FLAT_MIB = 50  # an idle agent uses about 25


def updates(count: int, *, first: int = 0, size: int = 100) -> bytes:
    """Return updates as an agent streams them; each starts with its number."""
    frames: list[bytes] = []
    for number in range(first, first + count):
        content = {"type": "text", "text": f"{number} ".ljust(size, "x")}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        params = {"sessionId": "s", "update": update}
        frames.append(json.dumps(notification("session/update", params)).encode() + b"\n")
    return b"".join(frames)


def sent_until_it_stands_still(running: Program) -> int:
    """Return the number of updates that an agent sent before it stopped sending."""
    before = -1
    while True:
        running.send(notification("_tell_sent"))
        sent = int(running.err_line().removeprefix("sent "))
        if sent == before:
            return sent
        before = sent


@pytest.mark.slow
def test_many_updates_wait_for_a_client_that_does_not_read() -> None:
    count = 60_000
    with agent() as running:
        running.send(prompt("turn", f"stream {count}"))
        running.line()
        assert sent_until_it_stands_still(running) < 20_000
        assert running.grown_mib() < FLAT_MIB
        assert running.count_lines(b'"stopReason"') == count - 1
        assert running.grown_mib() < FLAT_MIB
        assert still_answers(running)


@pytest.mark.slow
def test_requests_wait_while_their_responses_are_not_read() -> None:
    count = 10_000
    lines = [
        json.dumps(request(number, "_echo", "x" * 1000)).encode() + b"\n" for number in range(count)
    ]
    with agent() as running:
        taken = running.write_until_full(lines)
        assert taken < 6_000
        assert running.grown_mib() < 20
        running.finish_piece()
        running.write(b"".join(lines[taken:]), reading=True)
        running.send(request("last", "_echo"))
        assert running.count_lines(b'"last"') == count
        assert running.grown_mib() < 20


@requirement("R-ERR-03")
@pytest.mark.parametrize("line", [b"{\n", b'{"jsonrpc":"2.0","method":5}\n'])
def test_invalid_messages_wait_while_the_errors_are_not_read(line: bytes) -> None:
    pieces = [line * 1000] * 200
    with agent() as running:
        assert running.write_until_full(pieces) < 150
        assert running.grown_mib() < 40


def connected(running: Program) -> None:
    """Answer the `initialize` of Accord's client."""
    asked = running.receive()
    assert asked["method"] == "initialize"
    running.send(answer(asked["id"], {"protocolVersion": 1, "agentCapabilities": {}}))
    assert running.err_line() == "connected"


@requirement("R-GEN-17")
def test_updates_wait_for_a_slow_handler_and_are_handled_in_order() -> None:
    size = 500
    with program("client.py", "slow", "1") as running:
        connected(running)
        pieces = [updates(size, first=first * size) for first in range(50)]
        sent = running.write_until_full(pieces)
        assert running.err_line() == "waiting"
        assert sent < 30
        assert running.grown_mib() < FLAT_MIB
        running.signal(signal.SIGUSR1)
        running.finish_piece()
        title = {"sessionUpdate": "session_info_update", "title": "end"}
        params = {"sessionId": "s", "update": title}
        running.send(notification("session/update", params))
        assert running.err_line() == f"{sent * size} updates, in order: True"
        assert running.grown_mib() < FLAT_MIB
        running.send(answer(running.receive()["id"], "done"))
        assert running.err_line() == "answered 'done'"
        assert running.err_line() == "closed"


@requirement("R-GEN-17")
def test_response_after_updates_that_wait_for_a_slow_handler_is_read() -> None:
    size = 500
    with program("client.py", "behind", "1") as running:
        connected(running)
        question = running.receive()
        for first in range(40):
            running.write(updates(size, first=first * size))
        running.send(answer(question["id"], "done"))
        assert running.err_line() == "waiting"
        assert running.err_line() == "answered 'done'"
        assert running.grown_mib() < 2 * FLAT_MIB


@pytest.mark.parametrize("size", [0, 10_000])
def test_flood_during_a_call_of_a_handler_fails_its_session_in_bounded_memory(size: int) -> None:
    """Reading continues up to the limit, since the response follows the flood."""
    pieces = [updates(1_000_000 // (size + 200), size=size)] * 1000
    with program("client.py", "asking", "1") as running:
        connected(running)
        running.receive()
        running.write(updates(1))
        assert running.err_line() == "asking"
        running.write_until_refused(pieces)
        assert running.err_line().startswith("! The session 's' has more than ")
        assert running.err_line() == "exceeded in s"
        assert running.err_line().startswith("BacklogExceeded: The session 's' has more than ")
        assert running.grown_mib() < 250


@requirement("R-INIT-36")
@pytest.mark.parametrize("size", [0, 1_000_000])
def test_flood_before_the_initialize_response_ends_the_connection(size: int) -> None:
    pieces = [updates(1_000_000 // (size + 200) or 1, size=size)] * 1000
    with program("client.py", "plain", "1") as running:
        assert running.receive()["method"] == "initialize"
        running.write_until_refused(pieces)
        assert running.wait() == 1
        assert "ConnectionLost" in running.stderr()
