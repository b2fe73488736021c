"""Rates, their intervals, and tests, by closed formulas: no library is needed for these few.

All intervals have a level of 95 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, lgamma, log, sqrt

import msgspec

_Z = 1.959963984540054  # the normal distribution has 95 % within ± this


class Interval(msgspec.Struct, frozen=True):
    """An interval of confidence."""

    low: float
    high: float


def wilson(rate: float, count: float) -> Interval:
    """Return Wilson's score interval of a rate among `count` independent attempts.

    Raises `ValueError` if there is no attempt.
    """
    if count <= 0:
        raise ValueError(f"expected one attempt or more, got {count}")
    square = _Z * _Z / count
    middle = (rate + square / 2) / (1 + square)
    half = _Z * sqrt(rate * (1 - rate) / count + square / (4 * count)) / (1 + square)
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def clustered_rate(pairs: Iterable[tuple[int, int]]) -> tuple[float, Interval]:
    """Return a rate and its interval; a pair is (passed, judged) of one task.

    Attempts at one task resemble each other, so they count as fewer: the interval is Wilson's with
    the effective number of attempts, from the variance between tasks (a ratio estimate with tasks
    as clusters). With one attempt for each task it is Wilson's. If that variance is 0 the tasks
    are what counts.

    Raises `ValueError` if there is no judged attempt.
    """
    tasks = passed = judged = passed_squares = products = judged_squares = 0
    for good, count in pairs:
        if not count:
            continue
        tasks += 1
        passed += good
        judged += count
        passed_squares += good * good
        products += good * count
        judged_squares += count * count
    if not judged:
        raise ValueError("expected one judged attempt or more, got 0")
    rate = passed / judged
    if tasks == judged:  # one attempt for each task
        return rate, wilson(rate, judged)
    squares = passed_squares - 2 * rate * products + rate * rate * judged_squares
    if tasks == 1 or squares <= 0 or not 0 < rate < 1:
        return rate, wilson(rate, tasks)
    variance = tasks / (tasks - 1) * squares / judged**2
    return rate, wilson(rate, min(rate * (1 - rate) / variance, judged))


def mcnemar_exact(wins: int, losses: int) -> float:
    """Return the exact two-sided p value of McNemar's test, which is a sign test.

    Tasks with the same outcome for both agents do not count.
    """
    count, least = wins + losses, min(wins, losses)
    if wins == losses:
        return 1.0
    total = 0.0
    for number in range(least, -1, -1):
        term = exp(
            lgamma(count + 1) - lgamma(number + 1) - lgamma(count - number + 1) - count * log(2)
        )
        total += term
        if term < total * 1e-17:
            break
    return min(1.0, 2 * total)


def paired_difference(count: int, total: float, squares: float) -> Interval:
    """Return the interval of the mean difference between two agents on the same `count` tasks.

    `total` and `squares` are the sums of the differences and of their squares. This is the
    interval of Agresti and Min: four half observations are added, one for each outcome of a pair
    of attempts, so that the interval holds for few tasks as well.

    Raises `ValueError` if there is no task.
    """
    if count <= 0:
        raise ValueError(f"expected one task or more, got {count}")
    added = count + 2
    mean = total / added
    variance = max(0.0, (squares + 1) / added - mean * mean)
    half = _Z * sqrt(variance / added)
    return Interval(max(-1.0, mean - half), min(1.0, mean + half))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted for the number of comparisons, by Holm's method."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [1.0] * len(p_values)
    before = 0.0
    for place, index in enumerate(order):
        before = max(before, min(1.0, p_values[index] * (len(order) - place)))
        adjusted[index] = before
    return adjusted


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, with linear interpolation between neighbours."""
    at = share * (len(ordered) - 1)
    low = int(at)
    if low + 1 >= len(ordered):
        return ordered[low]
    return ordered[low] + (at - low) * (ordered[low + 1] - ordered[low])
