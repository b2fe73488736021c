"""Without the official schemas the proof is skipped or fails, with a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from schema import official


@pytest.fixture
def no_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("ACCORD_SCHEMA_DIR", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("ACCORD_REQUIRE_SCHEMA", raising=False)
    return monkeypatch


@pytest.mark.usefixtures("no_schemas")
def test_missing_schemas_skip_with_the_installation_command() -> None:
    with pytest.raises(pytest.skip.Exception, match=r"install\.sh"):
        official.require()


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("ACCORD_REQUIRE_SCHEMA", "1")])
def test_missing_schemas_fail_if_they_are_required(
    no_schemas: pytest.MonkeyPatch, name: str, value: str
) -> None:
    no_schemas.setenv(name, value)
    with pytest.raises(pytest.fail.Exception, match=r"install\.sh"):
        official.require()
