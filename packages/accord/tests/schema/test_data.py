"""Accord's codec and the official schema judge every instance in schema/data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from accord.errors import DecodeError
from schema import generate, official, verdict
from schema.judged import DATA, Judged, by_type, load, save

INSTANCES = by_type()
EACH_TYPE = pytest.mark.parametrize(
    ("version", "name"), sorted(INSTANCES), ids=["/".join(key) for key in sorted(INSTANCES)]
)

# Why the codec rejects what the schema accepts, by the end of the instance's name or all of it.
STRICT = {
    "-high": "a format bounds the number: the schema only mentions it, other peers refuse it",
    "-low": "a format bounds the number: the schema only mentions it, other peers refuse it",
    "AuthMethod/strict-terminal-": "a malformed terminal login is not an agent login (rule 3.5.8)",
    "SetSessionConfigOptionRequest/strict-boolean-": "a malformed value of a known type (A-56)",
    "-sessionId-null": "a null counts as present, so both ids are present (rule 3.5.11)",
    "-sessionId-number": "a wrong id counts as present, so both ids are present (rule 3.5.11)",
}


def each(version: str, name: str, *verdicts: str) -> list[Judged]:
    """Return the instances of one type with these verdicts."""
    return [row for row in INSTANCES[version, name] if row.verdict in verdicts]


@EACH_TYPE
def test_good_instance_survives_a_round_trip(version: str, name: str) -> None:
    for row in each(version, name, "good"):
        first = verdict.read(version, name, row.value)
        assert verdict.read(version, name, verdict.written(first)) == first, row.name


@EACH_TYPE
def test_bad_instance_is_rejected(version: str, name: str) -> None:
    for row in each(version, name, "bad", "strict"):
        with pytest.raises(DecodeError):
            pytest.fail(f"{row.name} read as {verdict.read(version, name, row.value)}")


@EACH_TYPE
def test_lenient_instance_is_decoded_as_its_meaning(version: str, name: str) -> None:
    for row in each(version, name, "lenient"):
        first = verdict.read(version, name, row.value)
        assert first == verdict.read(version, name, row.means), row.name
        assert verdict.read(version, name, verdict.written(first)) == first, row.name


@EACH_TYPE
def test_encoded_instance_is_valid(version: str, name: str) -> None:
    official.require()
    for row in each(version, name, "good"):
        encoded = verdict.written(verdict.read(version, name, row.value))
        # The schema accepts what was decoded (test_data_is_up_to_date).
        assert encoded == row.value or verdict.is_valid(version, name, encoded), row.name


def test_both_versions_have_instances_of_every_verdict() -> None:
    count = Counter((row.version, row.verdict) for row in load())
    for version in official.VERSIONS:
        assert all(count[version, word] > 3 for word in ("good", "bad", "lenient", "strict"))
    assert {word for _, word in count} == {"good", "bad", "lenient", "strict"}


def test_every_strict_instance_has_a_reason() -> None:
    for row in load():
        if row.verdict == "strict":
            assert any(row.name.endswith(why) or row.name.startswith(why) for why in STRICT), row


def test_data_is_small() -> None:
    assert len(load()) <= 2500
    assert [path.name for path in sorted(DATA.iterdir())] == ["v1.ndjson", "v2.ndjson"]
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 500_000


@pytest.mark.slow
def test_data_is_up_to_date(tmp_path: Path) -> None:
    """The official schema and the codec judge every instance as the data says."""
    official.require()
    rows, mistakes = generate.judged()
    assert not mistakes
    save(tmp_path, rows)
    for path in DATA.iterdir():
        assert (tmp_path / path.name).read_text("utf-8") == path.read_text("utf-8")
