"""Fuzzy search: the letters of the query in order, best matches first."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_SCORED = 2000  # candidates; a longer list is cut before it is sorted
_BOUNDARIES = frozenset("/_-. ")


def best_matches(query: str, candidates: Iterable[str], limit: int) -> list[str]:
    """Return the candidates that match, the best first; all of them for an empty query."""
    if not query:
        found: list[str] = []
        for candidate in candidates:
            found.append(candidate)
            if len(found) == limit:
                break
        return found
    pattern = re.compile(".*?".join(map(re.escape, query)), re.IGNORECASE)
    matching: list[str] = []
    for candidate in candidates:
        if pattern.search(candidate):
            matching.append(candidate)
            if len(matching) == MAX_SCORED:
                break
    return sorted(matching, key=lambda one: (-score(query, one), len(one), one))[:limit]


def score(query: str, candidate: str) -> int:
    """Return how well a candidate matches: adjacent letters, starts of words and its name count."""
    query, lower = query.lower(), candidate.lower()
    if not query:
        return 0
    name = lower.rpartition("/")[2]
    total = 0
    if name == query:
        total += 200
    elif name.startswith(query):
        total += 100
    elif query in name:
        total += 60
    elif query in lower:
        total += 30
    at = -1
    for letter in query:
        found = lower.find(letter, at + 1)
        if found < 0:
            return -1
        if found == at + 1:
            total += 3
        if found == 0 or lower[found - 1] in _BOUNDARIES:
            total += 5
        at = found
    return total
