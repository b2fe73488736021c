"""A few kills of each kind; `make attack` runs a thousand."""

from __future__ import annotations

import sys

import pytest

from attack import kills
from attack.seeds import small


@pytest.mark.skipif(sys.platform != "linux", reason="pidfds, and marks in environments")
@pytest.mark.parametrize("seed", small("kills", 4))
def test_no_process_outlives_a_kill_and_no_update_is_lost(seed: int) -> None:
    kills.attack(seed)
