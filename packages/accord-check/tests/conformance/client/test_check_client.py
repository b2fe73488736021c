"""`accord check client` as a process that a client starts."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.program import main
from accord_conformance.judges.observer import judge_recording
from accord_conformance.traffic import recording
from conformance.client.driven_client import converse

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientInfo": {"name": "some", "version": "1"}},
}
NEW = {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}}


def command(report: Path, *more: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "accord", "check", "client", "--report", str(report), *more)


def found_in(report: Path) -> dict[str, Any]:
    said = json.loads(report.read_text())
    return {rule["id"]: rule["outcome"] for rule in said["reports"][0]["rules"]}


async def test_accord_client_passes_over_a_process(tmp_path: Path) -> None:
    report, cwd = tmp_path / "report.json", tmp_path / "work"
    trace, page = tmp_path / "trace.ndjson", tmp_path / "report.html"
    cwd.mkdir()
    words = command(report, "--trace", str(trace), "--html", str(page))
    # What depends on the process, and many messages; test_clean.py has the rest, and version 1.
    await converse(words, (2,), cwd, ("check: malformed", "check: updates"))
    outcomes = found_in(report)
    assert [rule for rule, outcome in outcomes.items() if outcome in ("failed", "warned")] == []
    assert outcomes["R-STDIO-07"] == "passed"
    assert "<html" in page.read_text()
    frames = list(recording.read(trace.read_bytes().splitlines()))
    assert len(frames) > 100
    # Deliberate violations of the kit are not findings.
    judged = judge_recording(trace.read_bytes().splitlines()).finish()
    assert list(judged.failures()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
@pytest.mark.parametrize(
    ("hangs_up", "outcome"), [(False, "warned"), (True, "passed")], ids=["kills", "hangs-up"]
)
async def test_client_closes_stdin_before_it_kills_the_agent(
    hangs_up: bool, outcome: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    process = await asyncio.create_subprocess_exec(
        *command(report), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(50):
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        while b"protocolVersion" not in await process.stdout.readline():
            pass
        process.stdin.write(json.dumps(NEW).encode() + b"\n")
        while b"sessionId" not in await process.stdout.readline():
            pass
        if hangs_up:
            process.stdin.close()
        process.send_signal(signal.SIGTERM)
        await process.wait()
    assert found_in(report)["R-STDIO-07"] == outcome


async def test_accord_ask_can_be_checked(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    agent = " ".join(command(report, "--patience", "0.2"))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "accord",
        "ask",
        "--yes",
        "--agent",
        agent,
        "check: all",
        cwd=tmp_path,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(50):
        said, _ = await process.communicate()
    assert process.returncode == 0
    assert b"Passed:" in said
    assert b"none failed" in said
    outcomes = found_in(report)
    assert [rule for rule, outcome in outcomes.items() if outcome in ("failed", "warned")] == []


def starts(*words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Start the agent as a client that writes something and disconnects."""
    said = [sys.executable, "-m", "accord", "check", "client", *words]
    return subprocess.run(said, input=data, capture_output=True, timeout=50, check=False)


def test_client_that_disconnects_at_once_has_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report-{pid}.json"
    assert starts("--report", str(report)).returncode == 0
    (written,) = tmp_path.iterdir()
    assert re.fullmatch(r"report-\d+\.json", written.name)
    assert json.loads(written.read_text())["reports"]


def test_garbage_is_in_every_report(tmp_path: Path) -> None:
    kinds = ("json", "markdown", "html", "junit", "trace")
    files = {kind: tmp_path / kind for kind in kinds}
    words = [
        word
        for kind, file in files.items()
        for word in (f"--{'report' if kind == 'json' else kind}", str(file))
    ]
    data = bytes(range(256)) * 100 + b'\n[1,\nnull\n{"id":[],"method":"initialize","params":[]}\n'
    done = starts(*words, data=data)
    assert (done.returncode, done.stderr) == (1, b"")
    assert all("R-STDIO-05" in file.read_text("utf-8") for file in list(files.values())[:-1])
    assert list(recording.read(files["trace"].read_bytes().splitlines()))


def test_unwritable_report_is_reported_before_a_message_is_read(tmp_path: Path) -> None:
    done = starts("--report", str(tmp_path / "none" / "file"), data=b"{}\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--report: cannot write" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--html", "--trace"])
def test_unwritable_file_is_reported_at_once(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--report", str(tmp_path / "report"), option, str(tmp_path / "none" / "file")]
    assert main(["check", "client", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{option}: cannot write" in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
async def test_interrupted_run_writes_its_findings(tmp_path: Path, number: int) -> None:
    report = tmp_path / "report.json"
    process = await asyncio.create_subprocess_exec(
        *command(report),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(50):
        process.stdin.write(b"no JSON\n" + json.dumps(INITIALIZE).encode() + b"\n")
        while b"protocolVersion" not in await process.stdout.readline():
            pass
        process.send_signal(number)
        _, noise = await process.communicate()
    assert process.returncode == 128 + number
    assert b"Traceback" not in noise
    outcomes = found_in(report)
    assert outcomes["R-STDIO-05"] == "failed"
    assert outcomes["R-STDIO-07"] == "not exercised"


async def test_two_runs_can_write_one_report(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    words = ("check", "client", "--report", str(report), "--html", str(tmp_path / "page.html"))
    runs = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "accord", *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for _ in range(2)
    ]
    async with asyncio.timeout(50):
        ends = await asyncio.gather(*(run.communicate(b"no JSON\n") for run in runs))
    assert [noise for _, noise in ends] == [b"", b""]
    assert found_in(report)["R-STDIO-05"] == "failed"
    assert names_in(tmp_path) == ["page.html", "report.json"]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
