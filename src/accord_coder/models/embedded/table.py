"""The table of all requests: the grammar, `help` and the page of the documentation come from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from accord_coder.models.embedded.families.changing import CHANGING
from accord_coder.models.embedded.families.explaining import EXPLAINING
from accord_coder.models.embedded.families.looking import LOOKING
from accord_coder.models.embedded.families.moving import MOVING
from accord_coder.models.embedded.families.running import RUNNING
from accord_coder.models.embedded.families.searching import SEARCHING
from accord_coder.models.embedded.families.talking import TALKING
from accord_coder.models.embedded.form import NOISE, Form
from accord_coder.models.embedded.request import Request
from accord_coder.models.embedded.words import Word

__all__ = ("FAMILIES", "REQUESTS", "forms_for")

# The title of each family, for people.
FAMILIES: Mapping[str, tuple[Request, ...]] = {
    "Look": LOOKING,
    "Search": SEARCHING,
    "Explain": EXPLAINING,
    "Change": CHANGING,
    "Move and delete": MOVING,
    "Run": RUNNING,
    "Talk": TALKING,
}
# In the order in which they are tried: the narrower first, those that ask back last.
_ORDER = (
    TALKING,
    SEARCHING[:1],
    RUNNING,
    EXPLAINING,
    LOOKING,
    SEARCHING[1:],
    CHANGING,
    MOVING,
)
REQUESTS: tuple[Request, ...] = tuple(request for family in _ORDER for request in family)


@cache
def _compiled() -> tuple[tuple[Request, Form], ...]:
    ordered = sorted(REQUESTS, key=lambda request: request.asks_back)
    return tuple((request, Form(form)) for request in ordered for form in request.forms)


@cache
def _by_word() -> tuple[dict[str, list[int]], list[int]]:
    """Return which forms can begin with a word, and which with any."""
    known: dict[str, list[int]] = {}
    free: list[int] = []
    for number, (_, form) in enumerate(_compiled()):
        if form.first is None:
            free.append(number)
        else:
            for word in form.first:
                known.setdefault(word, []).append(number)
    return known, free


def forms_for(words: Sequence[Word]) -> list[tuple[Request, Form]]:
    """Return the forms that these words can be, in the order in which they are to be tried."""
    known, free = _by_word()
    numbers = set(free)
    for word in words:
        numbers.update(known.get(word.low, ()))
        if word.low not in NOISE:
            break
    compiled = _compiled()
    return [compiled[number] for number in sorted(numbers)]
