"""The timeout for turns shrinks if turns do not end."""

from __future__ import annotations

from accord_conformance.agent.settings import Settings, TurnTimeout


def test_agent_whose_turns_never_end_has_the_timeout_of_a_response() -> None:
    patience = TurnTimeout(Settings(timeout=60.0, answer=10.0))
    for _ in range(3):
        assert patience.seconds == 60.0
        patience.turn_timed_out()
    assert patience.seconds == 10.0


def test_agent_that_ended_a_turn_keeps_its_timeout() -> None:
    patience = TurnTimeout(Settings(timeout=60.0, answer=10.0))
    patience.turn_ended()
    for _ in range(5):
        patience.turn_timed_out()
    assert patience.seconds == 60.0


def test_timeout_of_a_response_never_exceeds_that_of_a_turn() -> None:
    patience = TurnTimeout(Settings(timeout=5.0, answer=10.0))
    for _ in range(3):
        patience.turn_timed_out()
    assert patience.seconds == 5.0
