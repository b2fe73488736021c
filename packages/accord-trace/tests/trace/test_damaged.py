"""Recordings that are cut, damaged, empty or piped: what is readable is read, the rest is said."""

from __future__ import annotations

import gzip
from importlib import import_module
from pathlib import Path

import pytest

from accord_trace import Filter, MessageIndex, TraceError, open_trace
from accord_trace.records import is_damaged
from accord_trace.trace_file import packer_of
from requirement import requirement
from sample_recordings import one_turn


def zstd_installed() -> bool:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            import_module(name)
        except ImportError:
            continue
        return True
    return False


ENDINGS = [
    ".gz",
    pytest.param(".zst", marks=pytest.mark.skipif(not zstd_installed(), reason="needs zstd")),
]


def packed(path: Path, *, is_killed: bool = False) -> Path:
    """Write a recording as the recorder does: compressed line by line."""
    lines = one_turn().save(path.with_suffix(".plain")).read_bytes().splitlines(keepends=True)
    packer = packer_of(path)
    assert packer is not None
    data = b"".join(map(packer.pack, lines))
    path.write_bytes(data if is_killed else data + packer.finish())
    return path


def read(path: Path) -> tuple[int, list[str]]:
    trace = open_trace(path)
    return sum(1 for _ in trace), trace.problems


@requirement("R-TRACE-06")
@pytest.mark.parametrize("ending", ENDINGS)
def test_compressed_recording_of_a_killed_recorder_is_whole(tmp_path: Path, ending: str) -> None:
    assert read(packed(tmp_path / f"r.acp.jsonl{ending}", is_killed=True)) == (15, [])


@requirement("R-TRACE-06")
def test_gzip_that_is_cut_is_read_up_to_the_cut_and_said(tmp_path: Path) -> None:
    path = packed(tmp_path / "r.acp.jsonl.gz")
    whole = path.read_bytes()
    counts: set[int] = set()
    for end in range(len(whole) - 1, len(whole) // 3, -7):
        path.write_bytes(whole[:end])
        count, problems = read(path)
        counts.add(count)
        # Between two writes of the recorder, nothing is missing.
        if not whole[:end].endswith(b"\0\0\xff\xff"):
            assert "the gzip data are cut after" in "".join(problems), end
        with MessageIndex([path]) as index:
            while not index.advance():
                pass
            assert len(index) == count
            assert bool(index.problems) is bool(problems)
    assert len(counts) > 5


@pytest.mark.skipif(not zstd_installed(), reason="needs zstd")
def test_zstd_that_is_cut_in_its_only_block_is_not_called_empty(tmp_path: Path) -> None:
    path = packed(tmp_path / "r.acp.jsonl.zst")
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(TraceError, match="the zstd data are cut after 0 bytes of text"):
        read(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_damaged_data_are_read_up_to_the_damage_and_said(tmp_path: Path, ending: str) -> None:
    path = packed(tmp_path / f"r.acp.jsonl{ending}")
    data = bytearray(path.read_bytes())
    third = len(data) // 3
    data[third : third + 200] = b"\xff" * 200
    path.write_bytes(data)
    count, problems = read(path)
    assert 1 <= count < 15
    assert "data are damaged after" in "".join(problems)


def test_garbage_after_gzip_is_said_and_padding_is_not(tmp_path: Path) -> None:
    path = packed(tmp_path / "r.acp.jsonl.gz")
    whole = path.read_bytes()
    path.write_bytes(whole + b"garbage")
    count, problems = read(path)
    assert (count, len(problems)) == (15, 1)
    path.write_bytes(whole + b"\0" * 512)
    assert read(path) == (15, [])
    path.write_bytes(whole + gzip.compress(b""))
    assert read(path) == (15, [])


def damaged_at(path: Path, text: bytes) -> Path:
    """Write a recording that is damaged in the line that has a text."""
    data = one_turn().save(path).read_bytes()
    at = data.index(text)
    path.write_bytes(data[:at] + b"\x00\xff\xfe" + data[at + 3 :])
    return path


def damaged_in_the_middle(path: Path) -> Path:
    """Write a recording with a line whose head, which is known, and whose end are intact."""
    return damaged_at(path, b"world ")


def test_damaged_line_is_a_message_of_neither_side(tmp_path: Path) -> None:
    path = damaged_in_the_middle(tmp_path / "r.acp.jsonl")
    with MessageIndex([path]) as index:
        assert index.advance()
        record = index.record(6)
    assert (record.type, record.sender, record.receiver) == ("invalid", "", "")
    assert b"\x00\xff\xfe" in record.frame


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_each_damaged_line_counts_alike_in_an_index_and_in_a_trace(
    tmp_path: Path, ending: str, share: float
) -> None:
    lines = one_turn().save(tmp_path / "whole").read_bytes().splitlines(keepends=True)
    path = tmp_path / f"r.acp.jsonl{ending}"
    for at, line in enumerate(lines[1:], 1):
        place = 10 + int(share * (len(line) - 10))
        data = b"".join([*lines[:at], line[:place] + b"\x00\xff" + line[place:], *lines[at + 1 :]])
        path.write_bytes(gzip.compress(data) if ending else data)
        with MessageIndex([path]) as index:
            while not index.advance():
                pass
            indexed = [index.record(number) for number in range(len(index))]
            assert list(index.select(Filter(json_path="$.nothing"))) == []
            assert index.select(Filter(text="stopReason")) is not None
        traced = list(open_trace(path).with_damaged())
        assert [one.frame for one in traced] == [one.frame for one in indexed]
        assert [is_damaged(one) for one in traced] == [number == at for number in range(1, 16)]
        assert [is_damaged(one) for one in indexed] == [number == at for number in range(1, 16)]
        assert len(list(open_trace(path))) == 14
