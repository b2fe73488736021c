"""Some hundred turns; `make attack` runs many thousand."""

from __future__ import annotations

import pytest

from attack import soak
from attack.seeds import small


@pytest.mark.parametrize("seed", small("soak", 2))
def test_memory_does_not_grow(seed: int) -> None:
    soak.attack(seed, turns=200)
