"""Programs start by forks of the test's process, which has imported what they import."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forked import forked_programs


@pytest.fixture(autouse=True, scope="module")
def forks() -> Iterator[None]:
    """Start programs by forks; a module whose subject is the start itself has its own `forks`."""
    with forked_programs():
        yield
