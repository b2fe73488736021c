"""Where a client departed from a recording, and what of it was not used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct, to_builtins

from accord_trace.comparing import ValueDifference

DepartureKind: TypeAlias = Literal["changed", "answer", "unknown", "cancelled", "invalid"]

_MAX_SHOWN = 3


class Departure(Struct, frozen=True, kw_only=True):
    """One place where the client did something else than in the recording.

    `changed`: its message has other params than `message` of the recording, which was used all the
    same. `answer`: it answered a request of the agent differently. `unknown`: the recording has no
    such message, or no further one. `cancelled`: it cancelled what was not cancelled then.
    `invalid`: it sent what is not a message. `client_message` counts its messages from 1.
    """

    kind: DepartureKind
    method: str
    client_message: int
    message: int | None = None
    session: str | None = None
    expected: str = ""
    got: str = ""
    differences: list[ValueDifference] = []

    def __str__(self) -> str:
        place = f"client message {self.client_message}"
        where = place if self.message is None else f"message {self.message}, {place}"
        return f"{self.method or 'not a message'} ({where}): {self.reason}"

    @property
    def reason(self) -> str:
        """What was expected, and what came."""
        if not self.differences:
            return f"expected {self.expected}, got {self.got}"
        shown = "; ".join(map(str, self.differences[:_MAX_SHOWN]))
        more = len(self.differences) - _MAX_SHOWN
        return f"{shown}; {more} more" if more > 0 else shown


class Unused(Struct, frozen=True):
    """A message of the recorded client that the client did not send."""

    message: int
    kind: str
    method: str

    def __str__(self) -> str:
        what = f"answer to {self.method}" if self.kind == "response" else self.method
        return f"{what or self.kind} (message {self.message})"


class ReplayReport(Struct, frozen=True):
    """The result of a replay as agent, for one connection or several."""

    departures: list[Departure] = []
    unused: list[Unused] = []
    used: int = 0  # messages of the recorded client

    @classmethod
    def joined(cls, reports: Sequence[ReplayReport]) -> ReplayReport:
        """Return one report of several connections."""
        return cls(
            [item for report in reports for item in report.departures],
            [item for report in reports for item in report.unused],
            sum(report.used for report in reports),
        )

    def lines(self) -> Iterator[str]:
        """Yield the report for people."""
        total = self.used + len(self.unused)
        yield f"{self.used} of {total} messages of the client used"
        for number, departure in enumerate(self.departures, 1):
            yield f"departure {number}: {departure}"
        for item in self.unused:
            yield f"not used: {item}"

    def to_json(self) -> dict[str, Any]:
        """Return the report as builtin values."""
        return to_builtins(self)
