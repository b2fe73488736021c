"""Some hundred collisions; `make attack` goes on with it for minutes."""

from __future__ import annotations

import pytest

from attack import races
from attack.seeds import small


@pytest.mark.parametrize("seed", small("races", 20))
def test_nothing_that_collides_is_lost_or_left(seed: int) -> None:
    races.attack(seed)
