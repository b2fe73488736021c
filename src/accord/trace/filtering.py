"""Selects messages of a recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from msgspec import UNSET, Struct

from accord.trace.pairing import Answered, Pairing
from accord.trace.records import Direction, Record

__all__ = ("Filter", "Selected", "fits", "method_fits", "select")


class Filter(Struct, frozen=True, kw_only=True):
    """What to select; a message must meet every condition that is set.

    A response has the method and the session of its request. `methods` are patterns such as
    `session/*`; `text` is searched in the frame, in any case; `errors` selects error responses and
    frames that are not messages.
    """

    methods: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    direction: Direction | None = None
    errors: bool = False
    text: str = ""


class Selected(Struct, frozen=True, eq=False):
    """A message, its number in the recording from 1 on, and what it responds to."""

    number: int
    record: Record
    answered: Answered | None

    @property
    def method(self) -> str:
        """The method, for a response that of its request; empty if it is unknown."""
        if self.answered is not None:
            return self.answered.method
        return "" if self.record.method is UNSET else self.record.method


def select(records: Iterable[Record], wanted: Filter) -> Iterator[Selected]:
    """Yield the selected messages, in order."""
    pairing = Pairing()
    for number, record in enumerate(records, 1):
        selected = Selected(number, record, pairing.add(record))
        if fits(selected, wanted):
            yield selected


def method_fits(method: str, wanted: Filter) -> bool:
    """Return whether a method is selected."""
    return not wanted.methods or any(fnmatchcase(method, one) for one in wanted.methods)


def fits(selected: Selected, wanted: Filter) -> bool:
    """Return whether a message meets every condition."""
    record = selected.record
    if wanted.direction is not None and record.dir != wanted.direction:
        return False
    if wanted.errors and not (record.is_error or record.type == "invalid"):
        return False
    if not method_fits(selected.method, wanted):
        return False
    if wanted.sessions:
        session = record.session
        if session is None and selected.answered is not None:
            session = selected.answered.request.session
        if session not in wanted.sessions:
            return False
    text = wanted.text.casefold()
    return not text or text in record.frame.decode("utf-8", "replace").casefold()
