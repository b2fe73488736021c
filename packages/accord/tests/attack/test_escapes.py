"""A few paths out of the roots; `make attack` tries many more."""

from __future__ import annotations

import os

import pytest

from attack import escapes
from attack.seeds import small


@pytest.mark.skipif(os.name == "nt", reason="links and races of POSIX")
@pytest.mark.parametrize("seed", small("escapes", 12))
def test_no_path_leads_out_of_the_roots(seed: int) -> None:
    escapes.attack(seed)
