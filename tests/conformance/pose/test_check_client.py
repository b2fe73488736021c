"""`accord check client` as the process that a client starts."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.conformance import recording
from accord.conformance.pose.scenes import SCENARIOS
from accord.conformance.pose.watch import WATCHED
from conformance.pose.driven import PROMPTS, check, converse, log_in, look_around

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
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


@BOTH
async def test_our_client_passes_over_a_process(version: int, tmp_path: Path) -> None:
    report, cwd = tmp_path / "report.json", tmp_path / "work"
    trace, page = tmp_path / "trace.ndjson", tmp_path / "report.html"
    cwd.mkdir()
    words = command(report, "--trace", str(trace), "--html", str(page))
    await converse(words, (version,), cwd, PROMPTS)
    outcomes = found_in(report)
    assert [rule for rule, outcome in outcomes.items() if outcome in ("failed", "warned")] == []
    assert outcomes["R-STDIO-07"] == "passed"
    assert "<html" in page.read_text()
    frames = list(recording.read(trace.read_bytes().splitlines()))
    assert len(frames) > 100


async def test_all_that_is_checked_is_told_of_when_it_is_kept(tmp_path: Path) -> None:
    runs = [await check(tmp_path, version, *PROMPTS, does=look_around) for version in (1, 2)]
    runs += [await check(tmp_path, version, answer=99) for version in (1, 2)]
    runs += [await check(tmp_path, version, login=True, does=log_in) for version in (1, 2)]
    runs += [await check(tmp_path, version, "check: all", offers=False) for version in (1, 2)]
    runs.append(await check(tmp_path, 1, speaks=(1, 2)))
    assert [found for run in runs for found in run.reports[0].failures()] == []
    kept = {rule for run in runs for rule, found in run.reports[0].rules.items() if found.kept}
    rules = {*WATCHED, *(rule for one in SCENARIOS for rule in one.rules)}
    assert sorted(rules - kept) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
@pytest.mark.parametrize(
    ("hangs_up", "outcome"), [(False, "failed"), (True, "passed")], ids=["kills", "hangs-up"]
)
async def test_client_has_to_hang_up_before_it_kills(
    hangs_up: bool, outcome: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    process = await asyncio.create_subprocess_exec(
        *command(report), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(20):
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


async def test_accord_ask_is_a_client_to_check(tmp_path: Path) -> None:
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
    assert b"0 broken" in said
    outcomes = found_in(report)
    assert [rule for rule, outcome in outcomes.items() if outcome in ("failed", "warned")] == []
