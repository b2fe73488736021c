"""Accord's codec and the official schema judge every instance in schema/data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from accord.errors import DecodeError
from schema import generate, official, verdict
from schema.judged import DATA, Judged, load, save

# Why the codec rejects what the schema accepts, by the end of the instance's name or all of it.
STRICT = {
    "-high": "a format bounds the number: the schema only mentions it, other peers refuse it",
    "-low": "a format bounds the number: the schema only mentions it, other peers refuse it",
    "AuthMethod/strict-terminal-": "a malformed terminal login is not an agent login (rule 3.5.8)",
    "SetSessionConfigOptionRequest/strict-boolean-": "a malformed value of a known type (A-56)",
    "-sessionId-null": "a null counts as present, so both ids are present (rule 3.5.11)",
    "-sessionId-number": "a wrong id counts as present, so both ids are present (rule 3.5.11)",
}


def each(*verdicts: str) -> list[Judged]:
    """Return the instances with these verdicts."""
    return [row for row in load() if row.verdict in verdicts]


def read(row: Judged, value: object) -> object:
    return verdict.read(row.version, row.type, value)


def test_good_instances_survive_a_round_trip() -> None:
    for row in each("good"):
        first = read(row, row.value)
        assert read(row, verdict.written(first)) == first, row.name


def test_bad_instances_are_rejected() -> None:
    for row in each("bad", "strict"):
        with pytest.raises(DecodeError):
            pytest.fail(f"{row.name} read as {read(row, row.value)}")


def test_lenient_instances_are_decoded_as_their_meaning() -> None:
    for row in each("lenient"):
        first = read(row, row.value)
        assert first == read(row, row.means), row.name
        assert read(row, verdict.written(first)) == first, row.name


def test_encoded_instances_are_valid() -> None:
    official.require()
    for row in each("good"):
        encoded = verdict.written(read(row, row.value))
        # The schema accepts what was decoded (test_data_is_up_to_date).
        accepted = encoded == row.value or verdict.is_valid(row.version, row.type, encoded)
        assert accepted, row.name


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
