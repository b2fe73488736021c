"""Some thousand nearly right frames; `make attack` sends ten million."""

from __future__ import annotations

import pytest

from attack import frames
from attack.seeds import small


@pytest.mark.parametrize("seed", small("frames", 8))
def test_no_frame_is_too_much(seed: int) -> None:
    frames.attack(seed)


def test_no_frame_over_a_real_pipe_is_too_much() -> None:
    frames.attack(0, over_pipes=True)
