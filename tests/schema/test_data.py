"""Every instance in tests/schema/data, judged by our codec and by the official schema."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from accord.errors import DecodeError
from schema import generate, official, verdict

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("*/*/*.json"))
TYPES = sorted({path.parent for path in FILES})
EACH_TYPE = pytest.mark.parametrize(
    "folder", TYPES, ids=[folder.relative_to(DATA).as_posix() for folder in TYPES]
)

# Why we refuse what the schema accepts, by how the instance ends or by its whole name.
STRICT = {
    "-high": "a format bounds the number: the schema only mentions it, other peers refuse it",
    "-low": "a format bounds the number: the schema only mentions it, other peers refuse it",
    "AuthMethod/strict-terminal-": "a malformed terminal login is no agent login (rule 3.5.8)",
    "SetSessionConfigOptionRequest/strict-boolean-": "a malformed value of a known type (A-56)",
    "-sessionId-null": "a null counts as present, so both ids are there (rule 3.5.11)",
    "-sessionId-number": "a wrong id counts as present, so both ids are there (rule 3.5.11)",
}


def each(folder: Path, word: str) -> list[tuple[str, Any]]:
    """Return the instances of one type with one verdict, with their names."""
    paths = sorted(folder.glob(f"{word}-*.json"))
    return [(path.name, json.loads(path.read_text("utf-8"))) for path in paths]


def names(folder: Path) -> tuple[str, str]:
    """Return the version and the type of a folder."""
    return folder.parent.name, folder.name


@EACH_TYPE
def test_good_is_read_and_survives_being_written(folder: Path) -> None:
    version, name = names(folder)
    for file, value in each(folder, "good"):
        first = verdict.read(version, name, value)
        assert verdict.read(version, name, verdict.written(first)) == first, file


@EACH_TYPE
def test_bad_is_refused(folder: Path) -> None:
    version, name = names(folder)
    for word in ("bad", "strict"):
        for file, value in each(folder, word):
            with pytest.raises(DecodeError):
                pytest.fail(f"{file} read as {verdict.read(version, name, value)}")


@EACH_TYPE
def test_lenient_reads_as_what_it_means(folder: Path) -> None:
    version, name = names(folder)
    for file, value in each(folder, "lenient"):
        first = verdict.read(version, name, value["reads"])
        assert first == verdict.read(version, name, value["means"]), file
        assert verdict.read(version, name, verdict.written(first)) == first, file


@EACH_TYPE
def test_official_schema_agrees(folder: Path) -> None:
    official.require()
    version, name = names(folder)
    for word, accepted in (("good", True), ("bad", False), ("strict", True)):
        for file, value in each(folder, word):
            assert verdict.is_valid(version, name, value) is accepted, file
    for file, value in each(folder, "lenient"):
        valid = value.get("valid", False)
        assert verdict.is_valid(version, name, value["reads"]) is valid, file


@EACH_TYPE
def test_what_we_write_is_valid(folder: Path) -> None:
    official.require()
    version, name = names(folder)
    for file, value in each(folder, "good"):
        first = verdict.read(version, name, value)
        assert verdict.is_valid(version, name, verdict.written(first)), file


def test_every_verdict_is_there_for_both_versions() -> None:
    count = Counter((path.parent.parent.name, path.name.split("-")[0]) for path in FILES)
    for version in official.VERSIONS:
        assert all(count[version, word] > 3 for word in ("good", "bad", "lenient", "strict"))
    assert {word for _, word in count} == {"good", "bad", "lenient", "strict"}


def test_every_strict_instance_has_a_reason() -> None:
    for path in FILES:
        if path.name.startswith("strict-"):
            place = f"{path.parent.name}/{path.stem}"
            assert any(place.endswith(why) or place.startswith(why) for why in STRICT), place


def test_data_is_small() -> None:
    assert len(FILES) <= 2500
    assert sum(path.stat().st_size for path in FILES) < 3_000_000


@pytest.mark.slow
def test_data_is_what_the_generator_writes(tmp_path: Path) -> None:
    official.require()
    generate.write(tmp_path)
    fresh = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.glob("*/*/*.json")}
    assert fresh == {path.relative_to(DATA): path.read_text() for path in FILES}
