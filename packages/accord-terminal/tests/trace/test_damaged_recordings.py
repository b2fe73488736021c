"""Commands of `accord trace` with recordings that are damaged or cut, pipes and full disks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from accord.program import COMMANDS, load_command
from accord_terminal.click_group import main
from accord_trace import open_trace
from accord_trace.replay.script import read_scripts
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


def run_readers(path: Path) -> None:
    for command in READERS:
        assert main(["trace", *command.split(), str(path)], COMMANDS, load_command) == 0, command


def test_recording_with_only_a_header_is_no_error(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "r.acp.jsonl"
    path.write_bytes(one_turn().save(path).read_bytes().partition(b"\n")[0] + b"\n")
    run_readers(path)
    assert "Traceback" not in capfd.readouterr().err


def test_line_that_is_nested_too_deeply_is_skipped(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    deep = b'{"type":"notification","ts":9,"protocol":"acp","from":"Agent","to":"Client",'
    deep += b'"method":"x","dir":"to_client","conn":"1","bytes":3,"params":'
    with path.open("ab") as file:
        file.write(deep + b"[" * 100_000 + b"]" * 100_000 + b"}\n")
    run_readers(path)
    assert capfd.readouterr().err.count("is nested too deeply") == len(READERS)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a FIFO")
def test_recording_is_read_from_a_pipe(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = one_turn().save(tmp_path / "r.acp.jsonl")
    pipe = tmp_path / "pipe" / "r.acp.jsonl"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    for command in READERS:
        assert main(["trace", *command.split(), str(path)], COMMANDS, load_command) == 0
        expected = capfd.readouterr().out
        data = path.read_bytes()
        writer = threading.Thread(target=pipe.write_bytes, args=(data,), daemon=True)
        writer.start()
        assert main(["trace", *command.split(), str(pipe)], COMMANDS, load_command) == 0
        writer.join(10)
        assert capfd.readouterr() == (expected, ""), command


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
@pytest.mark.parametrize("command", ["show", "export --format har", "diff r.acp.jsonl"])
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
