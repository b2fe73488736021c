"""The blocking front, against a real process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from accord import StartError, ask
from accord.client.permissions import allow

GREETER = [sys.executable, str(Path(__file__).with_name("greeter.py"))]
BOTH = pytest.mark.parametrize("versions", [(1,), (2,)], ids=["v1", "v2"])


@BOTH
def test_answer_has_text_and_stop_reason_and_transcript(versions: tuple[int, ...]) -> None:
    answer = ask(GREETER, "Hi", versions=versions)
    assert str(answer) == answer.text == "Hello! You wrote: Hi"
    assert answer.stop_reason == "end_turn"
    assert [message.role for message in answer.transcript.messages] == ["user", "agent"]


@BOTH
def test_permissions_are_decided_by_policies(versions: tuple[int, ...]) -> None:
    assert ask(GREETER, "work", versions=versions).text == "refused"
    assert ask(GREETER, ["work"], versions=versions, permissions=allow("edit")).text == "done"


async def test_question_may_be_asked_while_an_event_loop_runs() -> None:
    assert ask(GREETER, "Hi").text == "Hello! You wrote: Hi"


@BOTH
def test_timeout_cancels_the_turn_and_ends_the_agent(versions: tuple[int, ...]) -> None:
    with pytest.raises(TimeoutError):
        ask(GREETER, "wait", timeout_s=0.5, versions=versions)


def test_agent_that_does_not_start_says_why() -> None:
    with pytest.raises(StartError, match="no-such-agent"):
        ask("no-such-agent --acp", "Hi")


async def test_errors_are_raised_from_the_thread() -> None:
    with pytest.raises(StartError):
        ask("no-such-agent --acp", "Hi")
