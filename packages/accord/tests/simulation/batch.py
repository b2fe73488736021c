"""The work of one process: it runs the programs of some seeds."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from simulation.generate import program_of
from simulation.run import play

__all__ = ("BATCH", "Found", "play_all")

BATCH = 20  # seeds per batch


class Found(Struct):
    """A seed whose run failed."""

    seed: int
    kind: str
    detail: str


def play_all(first: int, count: int) -> tuple[int, list[Found], Counter[str]]:
    """Run the programs of some seeds; return their number, the failures, and the counts of acts."""
    found: list[Found] = []
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        result = play(program_of(seed))
        counts.update(result.counts)
        if result.failures:
            failure = result.failures[0]
            found.append(Found(seed, failure.kind, failure.detail))
    return count, found, counts
