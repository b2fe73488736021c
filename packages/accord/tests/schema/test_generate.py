"""The generator of instances fails if the codec is wrong, and writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schema import generate, official, verdict
from schema.judged import load

NAME = "Implementation"


@pytest.fixture(autouse=True)
def schemas() -> None:
    official.require()


def test_correct_instances_are_written(tmp_path: Path) -> None:
    assert generate.main(tmp_path / "data", [NAME]) == 0
    written = load(tmp_path / "data")
    assert ("v1", NAME, "bad") in {row[:3] for row in written}


@pytest.mark.parametrize("refuses", [True, False])
def test_wrong_verdict_of_the_codec_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refuses: bool,
) -> None:
    kept = tmp_path / "data" / "v1.ndjson"
    kept.parent.mkdir()
    kept.write_text("kept")
    monkeypatch.setattr(verdict, "refuses", lambda *_: refuses)
    assert generate.main(kept.parent, [NAME]) == 1
    expected = "not good" if refuses else "not bad"
    assert f"{expected}: v1 {NAME}" in capsys.readouterr().err
    assert kept.read_text() == "kept"


def test_wrong_decoding_of_a_lenient_key_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read = verdict.read

    def other(version: str, name: str, value: Any) -> Any:
        return read(version, name, value), repr(value)

    monkeypatch.setattr(verdict, "read", other)
    assert generate.main(tmp_path / "data", ["PromptCapabilities"]) == 1
    assert "not lenient: v1 PromptCapabilities" in capsys.readouterr().err
