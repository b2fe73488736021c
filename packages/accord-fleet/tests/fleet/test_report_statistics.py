"""The formulas of reports, against published values and exact enumeration."""

from __future__ import annotations

import random
from math import comb

import pytest

from accord_fleet.report.summary import (
    clustered_rate,
    holm,
    mcnemar_exact,
    paired_difference,
    quantile,
    wilson,
)


@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    [  # Newcombe 1998, Statistics in Medicine 17: 857-872, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_has_published_values(passed: int, count: int, low: float, high: float) -> None:
    interval = wilson(passed / count, count)
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


def test_one_attempt_for_each_task_is_wilson() -> None:
    rate, interval = clustered_rate([(1, 1)] * 15 + [(0, 1)] * 133)
    assert rate == 15 / 148
    assert interval == wilson(15 / 148, 148)


def test_copies_of_an_attempt_are_not_evidence() -> None:
    """Five attempts that always agree tell as much as one."""
    _, once = clustered_rate([(1, 1)] * 30 + [(0, 1)] * 70)
    _, five_times = clustered_rate([(5, 5)] * 30 + [(0, 5)] * 70)
    assert five_times.low == pytest.approx(once.low, abs=0.002)
    assert five_times.high == pytest.approx(once.high, abs=0.002)


def test_all_attempts_passed_at_few_tasks_is_not_certainty() -> None:
    rate, interval = clustered_rate([(10, 10)] * 3)
    assert rate == 1
    assert interval == wilson(1, 3)


def test_clusters_agree_with_a_bootstrap_over_tasks() -> None:
    rng = random.Random(5)
    pairs = [(sum(rng.random() < p for _ in range(4)), 4) for p in (0.2, 0.5, 0.9) * 40]
    rate, interval = clustered_rate(pairs)
    rates = sorted(sum(good for good, _ in rng.choices(pairs, k=120)) / 480 for _ in range(2000))
    assert rate == sum(good for good, _ in pairs) / 480
    assert interval.low == pytest.approx(quantile(rates, 0.025), abs=0.01)
    assert interval.high == pytest.approx(quantile(rates, 0.975), abs=0.01)
    independent = wilson(rate, 480)
    assert interval.low < independent.low
    assert interval.high > independent.high


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (5, 5), (10, 2), (0, 6), (150, 86), (3, 40)])
def test_mcnemar_is_the_binomial_test(wins: int, losses: int) -> None:
    count = wins + losses
    tail = sum(comb(count, one) for one in range(min(wins, losses) + 1)) / 2**count
    assert mcnemar_exact(wins, losses) == pytest.approx(min(1, 2 * tail), rel=1e-9)


def test_mcnemar_of_many_tasks_is_fast_and_finite() -> None:
    assert mcnemar_exact(60_000, 40_000) == 0
    assert 0.5 < mcnemar_exact(50_050, 49_950) < 0.8


def test_paired_interval_of_the_ratings_of_the_prime_minister() -> None:
    """794 and 570 agree, 150 and 86 differ: Agresti's difference of 0.04, from 0.021 to 0.059."""
    interval = paired_difference(1600, 150 - 86, 150 + 86)
    assert interval.low == pytest.approx(0.021, abs=0.0006)
    assert interval.high == pytest.approx(0.059, abs=0.0006)


@pytest.mark.parametrize(("win", "loss"), [(0.1, 0.1), (0.3, 0.1), (0.05, 0.0), (0.4, 0.4)])
def test_paired_interval_covers_the_truth_at_twenty_tasks(win: float, loss: float) -> None:
    """The exact probability that the interval has the true difference, over all outcomes."""
    count, covered = 20, 0.0
    for wins in range(count + 1):
        for losses in range(count - wins + 1):
            interval = paired_difference(count, wins - losses, wins + losses)
            if interval.low <= win - loss <= interval.high:
                ways = comb(count, wins) * comb(count - wins, losses)
                ties = (1 - win - loss) ** (count - wins - losses)
                covered += ways * win**wins * loss**losses * ties
    assert covered >= 0.93


def test_holm_adjusts_for_the_number_of_comparisons() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_quantiles_are_interpolated() -> None:
    assert quantile([1, 2, 3, 4], 0.5) == 2.5
    assert quantile([7], 0.95) == 7
    assert quantile([0, 10], 0.25) == 2.5


def test_no_attempt_is_an_error() -> None:
    with pytest.raises(ValueError, match="one judged attempt"):
        clustered_rate([(0, 0)])
    with pytest.raises(ValueError, match="one attempt"):
        wilson(0, 0)
    with pytest.raises(ValueError, match="one task"):
        paired_difference(0, 0, 0)
