"""Programs start by forks of the test's process, which has imported what they import."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

import forked


@pytest.fixture(autouse=True, scope="module")
def forks() -> Iterator[None]:
    """Start programs by forks."""
    with pytest.MonkeyPatch.context() as patch:
        forked.fork_here(patch)
        patch.setattr(subprocess, "Popen", forked._ForkedPopen)
        yield
