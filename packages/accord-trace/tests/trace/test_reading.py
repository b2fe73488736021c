"""Reading: tolerant, in bounded memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from accord_trace import Recording, Trace, TraceError, open_trace, open_traces
from requirement import requirement

UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}'


def recorded(path: Path, count: int = 3) -> Path:
    with Recording(path) as recording:
        recording.hop().frames("to_client", [UPDATE] * count)
    return path


@requirement("R-TRACE-06")
def test_recording_that_was_cut_is_read_up_to_the_cut(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.acp.jsonl")
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1  # of the last line
    for end in range(start + 1, len(whole) - 1):
        path.write_bytes(whole[:end])
        trace = open_trace(path)
        assert len(list(trace)) == 2, end
        assert len(trace.problems) == 1


@requirement("R-TRACE-01")
def test_unknown_types_and_fields_are_skipped(tmp_path: Path) -> None:
    path = recorded(tmp_path / "r.acp.jsonl")
    lines = path.read_bytes().splitlines()
    lines.insert(1, b'{"type":"fault","ts":1.0,"from":"x"}')
    lines[2] = lines[2].replace(b'"ts":', b'"new":[{}],"ts":')
    path.write_bytes(b"\n".join(lines))
    trace = open_trace(path)
    assert [record.frame for record in trace] == [UPDATE] * 3
    assert trace.problems == []


def test_header_is_known_after_the_first_record(tmp_path: Path) -> None:
    trace = open_trace(recorded(tmp_path / "r.acp.jsonl"))
    next(iter(trace))
    assert trace.header.program.startswith("accord ")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"hello\n", b"\x00\x01", b"[1]\n"])
def test_file_that_is_not_a_recording_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.acp.jsonl"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="Expected a recording in"):
        list(open_trace(path))


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="Cannot read"):
        list(open_trace(tmp_path / "r.acp.jsonl"))


def test_folder_is_read_as_its_recordings(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="found none"):
        open_traces(tmp_path)
    recorded(tmp_path / "b.acp.jsonl")
    with Recording(tmp_path / "a.acp.jsonl", max_bytes=10) as recording:
        hop = recording.hop()
        for _ in range(3):
            hop.frames("to_client", [UPDATE])
    (tmp_path / "notes.txt").write_text("not a recording")
    found = open_traces(tmp_path)
    assert [(trace.name, len(list(trace))) for trace in found] == [
        ("a.acp.jsonl", 3),
        ("b.acp.jsonl", 3),
    ]


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_reading_takes_little_memory(tmp_path: Path, ending: str) -> None:
    path = recorded(tmp_path / f"r.acp.jsonl{ending}", 20_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in open_trace(path)) == 20_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000  # the file has more


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_only_the_beginning_is_read_where_that_is_asked_for(tmp_path: Path, ending: str) -> None:
    path = recorded(tmp_path / f"r.acp.jsonl{ending}", 1000)
    trace = Trace([path], beginning=10_000)
    assert 0 < len(list(trace)) <= 1000
    whole = Trace([path], beginning=10_000_000)
    assert len(list(whole)) == 1000
    assert not whole.was_cut


def test_beginning_is_that_of_all_parts_together(tmp_path: Path) -> None:
    parts = [recorded(tmp_path / f"{name}.acp.jsonl", 1000) for name in "abcd"]
    size = parts[0].stat().st_size
    trace = Trace(parts, beginning=size + size // 2)
    assert 1000 < len(list(trace)) <= 2000
    assert trace.was_cut
    whole = Trace(parts, beginning=4 * size)
    assert len(list(whole)) == 4000
    assert not whole.was_cut


@requirement("R-TRACE-06")
def test_file_without_line_ends_is_refused_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with path.open("wb") as file:
        file.truncate(1_000_000_000)  # sparse
    trace = Trace([path], beginning=1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match="its first 1,000,000 bytes have no message"):
            list(trace)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert trace.was_cut


def test_line_over_many_chunks_is_read_as_a_whole(tmp_path: Path) -> None:
    text = b"x" * 5_000_000
    path = tmp_path / "r.acp.jsonl"
    lines = [UPDATE.replace(b"{}}", b'{"a":"%s"}}' % text), UPDATE, UPDATE]
    path.write_bytes(b"\n".join(lines))
    assert [record.frame for record in open_trace(path)] == lines
