"""Some hundred races; `make attack` runs them for minutes."""

from __future__ import annotations

import pytest

from attack import races
from attack.seeds import small


@pytest.mark.parametrize("seed", small("races", 20))
def test_races_lose_nothing_and_leave_nothing(seed: int) -> None:
    races.attack(seed)
