"""Fixtures of the tests over the network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forked import forked_programs


@pytest.fixture(autouse=True, scope="module")
def forks() -> Iterator[None]:
    """Start programs by forks; a module whose subject is the start itself has its own `forks`."""
    with forked_programs():
        yield


@pytest.fixture
def closing_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait long for a peer that does not read."""
    monkeypatch.setattr("accord.remote.asgi_socket.FLUSH_S", 1.0)
    monkeypatch.setattr("accord.transports.websocket_base.CLOSE_S", 1.0)
