"""Programs start by forks, since the kit is large. Doubles do not wait for timers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from event_loop import SkippingLoop
from forked import forked_programs

# Modules whose agents and clients are in memory: most of their time is a wait in vain.
IN_MEMORY = {Path(__file__).parent / folder / "test_doubles.py" for folder in ("agent", "client")}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path in IN_MEMORY:
        return {"skipping": SkippingLoop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture(autouse=True, scope="module")
def forks() -> Iterator[None]:
    """Start Python programs by forks; those that they start are interpreters."""
    with forked_programs(more=False):
        yield
