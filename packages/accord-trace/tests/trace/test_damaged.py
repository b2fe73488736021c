"""Recordings that are cut, damaged, empty or piped: what is readable is read, the rest is said."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from accord.program import COMMANDS, load_command
from accord_terminal.click_group import main
from accord_trace import Filter, MessageIndex, TraceError, open_trace
from accord_trace.records import is_damaged
from accord_trace.replay.script import read_scripts
from accord_trace.trace_file import packer_of
from requirement import requirement
from sample_recordings import one_turn

READERS = (
    "show",
    "stats",
    "export --format jsons",
    "export --format har",
    "export --format md",
    "export --format pytest",
    "export --format otlp",
)


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


@pytest.mark.parametrize("command", READERS)
def test_recording_with_only_a_header_is_no_error(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    path = tmp_path / "r.acp.jsonl"
    path.write_bytes(one_turn().save(path).read_bytes().partition(b"\n")[0] + b"\n")
    assert main(["trace", *command.split(), str(path)], COMMANDS, load_command) == 0
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("command", READERS)
def test_line_that_is_nested_too_deeply_is_skipped(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    deep = b'{"type":"notification","ts":9,"protocol":"acp","from":"Agent","to":"Client",'
    deep += b'"method":"x","dir":"to_client","conn":"1","bytes":3,"params":'
    with path.open("ab") as file:
        file.write(deep + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
    assert main(["trace", *command.split(), str(path)], COMMANDS, load_command) == 0
    assert "is nested too deeply" in capfd.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="needs a FIFO")
@pytest.mark.parametrize("command", READERS)
def test_recording_is_read_from_a_pipe(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    data = one_turn().save(tmp_path / "r.acp.jsonl").read_bytes()
    assert (
        main(["trace", *command.split(), str(tmp_path / "r.acp.jsonl")], COMMANDS, load_command)
        == 0
    )
    expected = capfd.readouterr().out
    pipe = tmp_path / "pipe" / "r.acp.jsonl"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,), daemon=True)
    writer.start()
    assert main(["trace", *command.split(), str(pipe)], COMMANDS, load_command) == 0
    writer.join(10)
    assert capfd.readouterr() == (expected, "")


@pytest.mark.skipif(sys.platform == "win32", reason="/dev/stdin")
def test_copy_of_a_pipe_is_removed(tmp_path: Path) -> None:
    data = one_turn().save(tmp_path / "r.acp.jsonl").read_bytes()
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "accord", "trace", "show", "/dev/stdin"],
        input=data,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        capture_output=True,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 15
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="/dev/stdin")
def test_pipe_without_a_recording_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "accord", "trace", "show", "/dev/stdin"],
        input=b"hello\n",
        capture_output=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"Error: Expected a recording in /dev/stdin: line 1: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [*READERS, "diff r.acp.jsonl"])
def test_output_on_a_full_disk_is_an_error_of_one_line(tmp_path: Path, command: str) -> None:
    if command.startswith("diff"):
        one_turn(2).save(tmp_path / "r.acp.jsonl")
    one_turn().save(tmp_path / "s.acp.jsonl")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "accord", "trace", *command.split(), "s.acp.jsonl"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr == "Error: Cannot write the output: No space left on device\n"
    assert done.returncode == 1


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root of Linux can mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("words", ["stats --html", "export --format har -o"])
def test_file_on_a_full_disk_is_kept_as_it_was(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, full_disk: Path, words: str
) -> None:
    recording = str(one_turn().save(tmp_path / "r.acp.jsonl"))
    output = full_disk / "output"
    output.write_bytes(b"before" + b"x" * 60_000)
    words = f"{words} {output}"
    assert main(["trace", *words.split(), recording], COMMANDS, load_command) == 1
    assert capfd.readouterr().err == f"Error: Cannot write {output}: No space left on device\n"
    assert output.read_bytes().startswith(b"before")
    assert list(full_disk.iterdir()) == [output]


def damaged_at(path: Path, text: bytes) -> Path:
    """Write a recording that is damaged in the line that has a text."""
    data = one_turn().save(path).read_bytes()
    at = data.index(text)
    path.write_bytes(data[:at] + b"\x00\xff\xfe" + data[at + 3 :])
    return path


def damaged_in_the_middle(path: Path) -> Path:
    """Write a recording with a line whose head, which is known, and whose end are intact."""
    return damaged_at(path, b"world ")


@requirement("R-TRACE-06")
def test_line_that_is_damaged_inside_is_shown_as_such_and_those_after_it_too(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = damaged_in_the_middle(tmp_path / "r.acp.jsonl")
    assert main(["trace", "show", str(path)], COMMANDS, load_command) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    damaged = [line for line in lines if "this line of the recording is damaged" in line]
    assert [line.split()[0] for line in damaged] == ["7"]
    assert "end_turn" in lines[11]


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


@pytest.mark.parametrize("text", [b"world ", b'"payload":{"protocolVersion"'])
def test_diff_and_replay_name_messages_as_show_prints_them(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], text: bytes
) -> None:
    whole = one_turn().save(tmp_path / "whole.acp.jsonl")
    path = damaged_at(tmp_path / "r.acp.jsonl", text)
    assert main(["trace", "show", str(path)], COMMANDS, load_command) == 0
    shown = capfdbinary.readouterr().out.decode().splitlines()
    [end] = [int(line.split()[0]) for line in shown if "end_turn" in line]
    other = whole.read_bytes().replace(b'"end_turn"', b'"refusal"')
    whole.write_bytes(other)
    assert main(["trace", "diff", "--strict", str(path), str(whole)], COMMANDS, load_command) == 1
    assert f"(message {end}): " in capfdbinary.readouterr().out.decode()
    [script] = read_scripts(open_trace(path).with_damaged())
    [prompt] = [one for one in script.requests if one.method == "session/prompt"]
    assert prompt.response is not None
    assert prompt.response.number == end
