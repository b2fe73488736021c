"""Programs start by forks: the kit is large, and loads all rules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forked import forked_programs


@pytest.fixture(autouse=True, scope="module")
def forks() -> Iterator[None]:
    """Start Python programs by forks; those that they start are interpreters."""
    with forked_programs(more=False):
        yield
