"""Which lines that are not messages are recorded, and what the page says of an agent's end."""

from __future__ import annotations

import pytest

from accord.errors import ConnectionLost, MethodNotFound
from accord_inspector.inspected_transport import StrangeLines
from accord_inspector.live_inspection import Seen, trouble_of, why_ended


def test_all_of_few_lines_are_recorded_and_few_of_many() -> None:
    seconds = 0.0
    lines = StrangeLines(lambda: seconds)
    assert all(lines.is_recorded(b"starting") for _ in range(200))
    recorded = 0
    for _ in range(10_000):
        recorded += lines.is_recorded(b"y")
        seconds += 0.0001
    assert 5 <= recorded <= 11
    assert lines.count == 10_200
    assert lines.recorded == 200 + recorded
    assert lines.first == "starting"


def test_blank_lines_are_not_counted_and_control_characters_are_visible() -> None:
    lines = StrangeLines()
    assert not lines.is_recorded(b"  \r")
    lines.is_recorded(b"\x1b[31mred\xff" + b"x" * 1000)
    assert lines.count == 1
    assert "\x1b" not in lines.first
    assert len(lines.first) < 100


@pytest.mark.parametrize(
    ("error", "is_connected", "text"),
    [
        (None, True, ""),
        (TimeoutError(), False, "a did not respond to initialize in time, and was stopped"),
        (
            ConnectionLost("/bin/a exited with status 3: no key", exit_status=3, stderr="no key\n"),
            False,
            "a exited with status 3 before it responded to initialize: no key",
        ),
        (
            ConnectionLost("/bin/a was ended by SIGKILL", exit_status=-9, stderr=""),
            False,
            "a was ended by SIGKILL before it responded to initialize",
        ),
        (
            ConnectionLost("/bin/a exited with status 3", exit_status=3),
            True,
            "/bin/a exited with status 3",
        ),
        (MethodNotFound(), False, "a refused initialize: Method not found (-32601)"),
    ],
)
def test_why_an_agent_has_ended(error: Exception | None, is_connected: bool, text: str) -> None:
    assert why_ended(error, "a", is_connected=is_connected) == text


def seen(state: str, **known: object) -> Seen:
    values = {"why": "", "seconds": 1.0, "is_program": True, "is_restartable": True, "stderr": []}
    return Seen(**{"state": state, "lines": StrangeLines(), **values, **known})


def test_nothing_is_wrong_with_an_agent_that_starts_or_runs() -> None:
    assert trouble_of(seen("starting")) is None
    assert trouble_of(seen("running", seconds=1000.0)) is None


def test_remote_agent_gets_no_advice_about_a_command() -> None:
    found = trouble_of(seen("failed", why="it refused", is_program=False))
    assert found is not None
    assert found["text"] == "it refused"
    assert "address" in found["advice"][0]
