"""Some thousand almost valid frames; `make attack` sends ten million."""

from __future__ import annotations

import pytest

from attack import frames
from attack.seeds import small


@pytest.mark.parametrize("seed", small("frames", 8))
def test_any_frame_is_handled_in_memory(seed: int) -> None:
    frames.attack(seed)


def test_any_frame_is_handled_over_a_pipe() -> None:
    frames.attack(0, over_pipes=True)
