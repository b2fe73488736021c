"""Some hundred messages; `make attack` sends ten thousand."""

from __future__ import annotations

import pytest

from attack import steers
from attack.seeds import small

pytestmark = pytest.mark.usefixtures("closing_is_quick")


def test_messages_are_neither_lost_nor_run_twice() -> None:
    assert sum(steers.attack(seed) for seed in small("steers", 40)) > 400
