"""A registry on loopback, and folders of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forked import forked_programs
from registry.server import Registry, serving


@pytest.fixture(autouse=True)
def forks() -> Iterator[None]:
    """Start the programs of the tests by forks."""
    with forked_programs():
        yield


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's data."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("ACCORD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    with serving() as served:
        monkeypatch.setenv("ACCORD_REGISTRY", served.url)
        yield served
