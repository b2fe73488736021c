"""What the tests of gateways share; `gateway_harness` has the gateway."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a test, with sessions of its own and `work` as a directory for them."""
    monkeypatch.setenv("ACCORD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("CALLER_STORE", str(tmp_path / "caller.db"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "work").mkdir()
    return tmp_path
