"""A flood of equal errors is logged in one line."""

from __future__ import annotations

import logging

import pytest

from accord.connection.limits import FloodLog

LOG = logging.getLogger("accord.test")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_flood_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = FloodLog(LOG, clock)
    for _ in range(1000):
        log.log(logging.WARNING, "! refused %s", "it")
    assert lines(caplog) == ["! refused it"]
    clock.now = 61
    log.log(logging.WARNING, "! refused %s", "that")
    assert lines(caplog)[1:] == ["! refused that (and 999 times before)"]
    log.log(logging.WARNING, "! refused %s", "that")
    clock.now = 200
    log.log(logging.ERROR, "! other")
    assert lines(caplog)[2:] == ["! other"]


def test_each_exception_type_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = FloodLog(LOG)
    for error in (ValueError("a"), ValueError("b"), KeyError("c")):
        log.exception("! failed", exc=error)
    log.exception("! failed", exc=ValueError("d"), about="another handler")
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "a",
        "'c'",
        "d",
    ]


def test_number_of_lines_is_limited_for_any_number_of_kinds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = FloodLog(LOG)
    for n in range(10_000):
        log.log(logging.WARNING, "! refused", kind=n)
    assert len(lines(caplog)) < 300
