"""Some hundred messages; `make attack` sends ten thousand."""

from __future__ import annotations

import pytest

from attack import steers
from attack.seeds import kept


def test_messages_are_neither_lost_nor_run_twice() -> None:
    count = sum(steers.attack(seed, "memory") for seed in range(30))
    count += sum(map(steers.attack, kept("steers")))
    assert count > 300


@pytest.mark.parametrize(("place", "seed"), [("process", 1), ("network", 0), ("network", 1)])
def test_messages_over_a_real_connection_are_not_lost(place: str, seed: int) -> None:
    assert steers.attack(seed, place) > 3
