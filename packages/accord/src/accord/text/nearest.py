"""Finds the name that a misspelled one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 60  # characters of a name that can be a misspelled one


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name with the fewest typing errors; None if all are too different.

    A typing error is a character too many, too few or wrong, or two that are exchanged. One in
    three characters can be wrong.
    """
    if not 1 < len(name) <= _LONGEST:
        return None
    lower = name.lower()
    best = min(((_errors(lower, one.lower()), one) for one in known), default=None)
    return best[1] if best is not None and best[0] <= max(1, len(name) // 3) else None


def nearest_keyword(name: str, known: Iterable[str]) -> str | None:
    """Return the keyword argument that begins with the name, or else the nearest one."""
    names = sorted(known)
    return next((one for one in names if one.startswith(name)), nearest(name, names))


def _errors(one: str, other: str) -> int:
    """Return the number of typing errors between two names."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, char in enumerate(one, 1):
        now = [row]
        for column, their in enumerate(other, 1):
            costs = [last[column] + 1, now[-1] + 1, last[column - 1] + (char != their)]
            if row > 1 < column and char == other[column - 2] and one[row - 2] == their:
                costs.append(before[column - 2] + 1)
            now.append(min(costs))
        before, last = last, now
    return last[-1]
