"""Tests of transports run on every kind of event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forked import forked_programs

HERE = Path(__file__).parent


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """Cannot watch file descriptors, like the default loop on Windows."""

    # These private methods are for the wake-up pipe of the loop itself.
    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        raise NotImplementedError

    def remove_reader(self, fd: Any) -> bool:
        raise NotImplementedError

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        raise NotImplementedError

    def remove_writer(self, fd: Any) -> bool:
        raise NotImplementedError


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "threads": LoopWithoutReaders,
}
try:
    import uvloop
except ImportError:
    pass
else:
    LOOPS["uvloop"] = uvloop.new_event_loop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    # A class or a module can name those that it needs.
    owner = getattr(item, "cls", None) or getattr(item, "module", None)
    needed: tuple[str, ...] = getattr(owner, "loops", tuple(LOOPS))
    return {name: make for name, make in LOOPS.items() if name in needed}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of one kind of loop with file descriptors as slow."""
    for item in items:
        if item.path.parent == HERE and "[uvloop" in item.name:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="module")
def forks() -> Iterator[None]:
    """Start programs by forks, which is quicker."""
    with forked_programs():
        yield


@pytest.fixture
def closing_is_quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait long for a peer that does not read; one that reads may be slow."""
    if "before_the_close" in request.node.name:
        return
    monkeypatch.setattr("accord.transports.stdio.FLUSH_S", 0.1)
    monkeypatch.setattr("accord.remote.asgi_socket.FLUSH_S", 0.1)
