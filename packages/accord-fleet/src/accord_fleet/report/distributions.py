"""Distributions with common bins, so that the charts of agents can be compared."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import exp, log

from accord_fleet.report.statistics import quantile
from accord_fleet.report.summary import Distribution

_BINS = 32
_LOGARITHMIC = 30  # from this ratio of the largest to the smallest positive value


def distributions(values: Sequence[array[float]]) -> list[Distribution | None]:
    """Return the distribution of each array, all with the same bins; None for an empty one."""
    filled = [array("d", sorted(one)) for one in values]
    some = [one for one in filled if one]
    if not some:
        return [None] * len(values)
    low, high = min(one[0] for one in some), max(one[-1] for one in some)
    edges = _edges(low, high)
    return [_distribution(one, edges) if one else None for one in filled]


def _edges(low: float, high: float) -> tuple[float, ...]:
    if high <= low:
        return ()
    if low > 0 and high / low >= _LOGARITHMIC:
        step = log(high / low) / _BINS
        middle = [low * exp(step * number) for number in range(1, _BINS)]
    else:
        middle = [low + (high - low) * number / _BINS for number in range(1, _BINS)]
    return (low, *middle, high)


def _distribution(ordered: array[float], edges: tuple[float, ...]) -> Distribution:
    counts = [0] * (len(edges) - 1) if edges else []
    if counts:
        place = 0
        for value in ordered:
            while place < len(counts) - 1 and value >= edges[place + 1]:
                place += 1
            counts[place] += 1
    return Distribution(
        count=len(ordered),
        total=sum(ordered),
        min=ordered[0],
        quarter=quantile(ordered, 0.25),
        median=quantile(ordered, 0.5),
        three_quarters=quantile(ordered, 0.75),
        p95=quantile(ordered, 0.95),
        max=ordered[-1],
        edges=edges,
        counts=tuple(counts),
    )
