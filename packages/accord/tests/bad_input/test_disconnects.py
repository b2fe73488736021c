"""Every way in which the client can disconnect; the agent exits and leaves nothing."""

from __future__ import annotations

import json

from bad_input.raw import agent, answer, prompt, request
from requirement import requirement

CLEAN = "left 0\n"  # reported by the agent when none of its tasks is left


@requirement("R-STDIO-07")
def test_agent_exits_when_its_input_ends() -> None:
    with agent() as running:
        running.close_input()
        assert running.wait() == 0
        assert running.stderr() == CLEAN


@requirement("R-STDIO-11")
def test_last_request_needs_no_newline() -> None:
    with agent() as running:
        running.write(json.dumps(request(1, "_echo", 5)).encode())
        running.close_input()
        assert running.rest() == [answer(1, 5)]
        assert running.wait() == 0


@requirement("R-STDIO-11")
def test_last_request_is_answered_although_it_takes_time() -> None:
    with agent() as running:
        running.write(json.dumps(prompt(1, "hi")).encode())
        running.close_input()
        update, response = running.rest()
        assert update["method"] == "session/update"
        assert response == answer(1, {"stopReason": "end_turn"})
        assert running.wait() == 0


@requirement("R-STDIO-11", "R-ERR-03")
def test_end_in_the_middle_of_a_line_is_a_parse_error() -> None:
    with agent() as running:
        running.write(json.dumps(request(1, "_echo", 5)).encode()[:-9])
        running.close_input()
        (refusal,) = running.rest()
        assert (refusal["id"], refusal["error"]["code"]) == (None, -32700)
        assert running.wait() == 0
        assert running.stderr() == CLEAN


@requirement("R-REQCAN-13", "R-REQCAN-08")
def test_end_during_a_turn_cancels_its_handler() -> None:
    with agent() as running:
        running.send(prompt(1, "hang"), request(2, "_hold"))
        assert running.err_line() == "hanging"
        running.close_input()
        assert running.wait() == 0
        assert running.stderr() == "cancelled\n" + CLEAN


@requirement("R-REQCAN-13")
def test_closing_both_pipes_during_a_turn_cancels_its_handler() -> None:
    with agent() as running:
        running.send(prompt(1, "hang"))
        assert running.err_line() == "hanging"
        running.close_output()
        running.close_input()
        assert running.wait() == 0
        assert running.stderr() == "cancelled\n" + CLEAN


@requirement("R-REQCAN-13")
def test_handler_that_ignores_its_cancellation_does_not_delay_the_exit() -> None:
    with agent() as running:
        running.send(prompt(1, "stubborn"))
        assert running.err_line() == "stubborn"
        running.close_input()
        assert running.wait() == 0
        assert "does not stop when cancelled" in running.stderr()


def test_agent_whose_output_is_closed_stops_streaming() -> None:
    with agent() as running:
        running.send(prompt(1, "stream 100000000"))
        running.line()
        running.close_output()  # its input stays open
        assert running.cpu_s() < 2.0
        assert running.wait() == 0
        assert running.stderr() == CLEAN


def test_agent_exits_when_its_client_dies_during_a_stream() -> None:
    with agent() as running:
        running.send(prompt(1, "stream 100000000"))
        running.line()
        running.close_input()
        running.close_output()
        assert running.cpu_s() < 2.0
        assert running.wait() == 0
        assert running.stderr() == CLEAN
