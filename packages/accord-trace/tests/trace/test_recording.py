"""Recordings: files, batches, rotation, compression, errors."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import sys
from pathlib import Path

import pytest

import accord
from accord import v1
from accord.roles import connect
from accord.transports.process import process
from accord_trace import Recording, TraceError, open_trace, record, trace_file
from accord_trace.trace_file import TraceFile
from requirement import requirement

UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}'


@requirement("R-TRACE-01")
def test_first_line_is_the_header(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path, argv=["my-agent", "--token", "x"]):
        pass
    header = json.loads(path.read_bytes())
    assert header["type"] == "header"
    assert header["version"] == 1
    assert header["argv"] == ["my-agent", "--token", "[redacted]"]
    assert header["versions"]["accord"] == accord.__version__
    assert header["t"].endswith("Z")
    assert header["redacted"] is True


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
@requirement("R-TRACE-05")
def test_file_is_private_even_if_it_existed(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    path.write_text("old")
    path.chmod(0o644)
    with Recording(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_frames_are_in_the_file_before_the_call_returns(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path) as recording:
        hop = recording.hop()
        hop.frames("to_client", [UPDATE, UPDATE])
        assert path.read_bytes().count(b"session/update") == 2
        hop.frame("to_client", UPDATE)  # without an event loop
        assert path.read_bytes().count(b"session/update") == 3


def test_frames_have_the_same_lines_together_and_one_by_one(tmp_path: Path) -> None:
    chunk = UPDATE.replace(b"{}", b'{"content":{"type":"text","text":"%b"}}')
    frames = [b'{"id":1,"method":"m"}', *(chunk % text for text in (b"a", b"b", b"\\n", b"c"))]
    paths = [tmp_path / name for name in ("together.acp.jsonl", "single.acp.jsonl")]
    for path in paths:
        with Recording(path) as recording:
            hop = recording.hop()
            if path is paths[0]:
                hop.frames("to_client", frames, ts=1.0)
            else:
                for frame in frames:
                    hop.frames("to_client", [frame], ts=1.0)
    together, single = (path.read_bytes().splitlines()[1:] for path in paths)
    assert len(together) == 5
    assert together == single


async def test_frames_of_one_iteration_are_written_together_in_order(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path) as recording:
        one, other = recording.hop("Client", "Proxy(0)"), recording.hop("Proxy(0)", "Agent")
        for _ in range(3):
            one.frame("to_agent", UPDATE)
            other.frame("to_agent", UPDATE)
        assert b"session/update" not in path.read_bytes()
        await asyncio.sleep(0)
        found = [(record.sender, record.conn) for record in open_trace(path)]
        assert found == [("Client", "1"), ("Proxy(0)", "2")] * 3


async def test_waiting_frames_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path) as recording:
        hop = recording.hop()
        for _ in range(2000):
            hop.frame("to_agent", UPDATE)
        assert path.read_bytes().count(b"session/update") > 1000
        await asyncio.sleep(0)
        assert path.read_bytes().count(b"session/update") == 2000


def test_recording_is_split_by_size_and_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    with Recording(path, max_bytes=1000) as recording:
        hop = recording.hop()
        for _ in range(20):
            hop.frames("to_client", [UPDATE])
    parts = sorted(path.name for path in tmp_path.iterdir())
    assert len(parts) > 2
    assert parts[0] == "r.2.acp.jsonl"
    trace = open_trace(path)
    assert len(list(trace)) == 20
    assert [file.name for file in trace.files[:2]] == ["r.acp.jsonl", "r.2.acp.jsonl"]
    times = [record.ts for record in trace]
    assert times == sorted(times)


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_every_write_of_a_compressed_recording_can_be_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"r.acp.jsonl.{ending}"
    with Recording(path) as recording:
        hop = recording.hop()
        hop.frames("to_client", [UPDATE] * 100)
        assert len(list(open_trace(path))) == 100  # as after SIGKILL
        hop.frames("to_client", [UPDATE] * 100)
    assert len(list(open_trace(path))) == 200
    assert path.stat().st_size < 5000
    path.write_bytes(path.read_bytes()[:-10])
    assert len(list(open_trace(path))) >= 100


def test_parts_of_a_recording_in_zstd_are_one(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl.zst"
    with Recording(path, max_bytes=100) as recording:
        hop = recording.hop()
        for _ in range(5):
            hop.frames("to_client", [UPDATE])
    assert (tmp_path / "r.2.acp.jsonl.zst").exists()
    assert len(list(open_trace(path))) == 5


def test_zstd_that_is_not_installed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.acp.jsonl.zst"
    with Recording(path):
        pass

    def missing() -> None:
        raise ImportError

    monkeypatch.setattr(trace_file, "_zstd", missing)
    with pytest.raises(OSError, match="extra `zstd`"):
        Recording(path)
    with pytest.raises(TraceError, match="extra `zstd`"):
        list(open_trace(path))


def test_full_disk_is_reported_and_the_connection_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(self: TraceFile, lines: bytes) -> None:
        raise OSError(28, "No space left on device")

    with Recording(tmp_path / "r.acp.jsonl") as recording:
        hop = recording.hop()
        monkeypatch.setattr(TraceFile, "write", no_space)
        with caplog.at_level(logging.ERROR):
            hop.frames("to_agent", [UPDATE])
            hop.frames("to_agent", [UPDATE])
    assert recording.error is not None
    assert caplog.text.count("No space left on device") == 1


async def test_connection_is_recorded_with_both_directions(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    agent = process(sys.executable, "-m", "accord", "agent", "script")
    with Recording(path) as recording:
        observers = [recording.hop().observer("client")]
        async with accord.connect(agent, observers=observers) as connected:
            await connected.new_session(cwd=str(tmp_path))
    found = [(item.type, item.sender, item.method) for item in open_trace(path)][:2]
    assert found == [
        ("request", "Client", "initialize"),
        ("response", "Agent", accord.UNSET),
    ]


async def test_connection_is_recorded_from_the_call_on(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    agent = process(sys.executable, "-m", "accord", "agent", "script")
    async with connect(agent, v1.ClientRole()) as remote:
        with record(remote.connection, path):
            await remote.list_sessions(v1.ListSessionsRequest())
    assert [item.type for item in open_trace(path)] == ["request", "response"]


def test_earlier_recording_is_kept_with_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "r.acp.jsonl"
    for _ in range(3):
        with Recording(path, max_bytes=1) as recording:
            recording.hop().frames("to_client", [UPDATE])
            recording.hop().frames("to_client", [UPDATE])
    names = sorted(found.name for found in tmp_path.iterdir())
    assert len(names) == 9
    kept = {name for name in names if ".ended-" in name}
    assert len(kept) == 6
    for name in names:
        if not name.endswith((".2.acp.jsonl", ".3.acp.jsonl")):
            assert sum(1 for _ in open_trace(tmp_path / name)) == 2
