"""What a broken rule is, for the page and for the process that judges."""

from __future__ import annotations

from msgspec import Struct


class BrokenRule(Struct, frozen=True, kw_only=True):
    """A rule that message `n` breaks; `others` are the numbers of the other messages involved."""

    n: int
    rule: str
    severity: str  # error: a MUST of the protocol; warning: a SHOULD; advice: any other
    by: str
    expected: str
    got: str
    others: list[int] = []
