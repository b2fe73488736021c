"""Names the attempt in warnings: many attempts write to one stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from accord.text.excerpt import one_line, visible

_name: ContextVar[Callable[[], str | None] | None] = ContextVar(
    "accord_fleet_attempt", default=None
)


def attempt_name(task: str, agent: str, attempt: int) -> str:
    """Return how a person finds an attempt, such as `fix-1 by claude`."""
    return f"{task} by {agent}" + (f", attempt {attempt}" if attempt > 1 else "")


@contextmanager
def working_for(name: Callable[[], str | None]) -> Generator[None]:
    """Name what is logged in the block, and by the tasks that it starts; `name` is asked then."""
    token = _name.set(name)
    try:
        yield
    finally:
        _name.reset(token)


@contextmanager
def named_warnings(redact: Callable[[str], str]) -> Generator[None]:
    """Write warnings of Accord to stderr in the block, with the attempt and without secrets."""
    handler = _Stderr(redact)
    logger = logging.getLogger("accord")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Stderr(logging.Handler):
    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self._redact = redact

    def emit(self, record: logging.LogRecord) -> None:
        """Write a warning; `sys.stderr` is looked up, because progress may replace it."""
        try:
            asked = _name.get()
            name = None if asked is None else asked()
            text = visible(self._redact(self.format(record)))
            sys.stderr.write(f"{one_line(name, 200)}: {text}\n" if name else f"{text}\n")
        except Exception:  # noqa: BLE001  # as logging does
            self.handleError(record)
