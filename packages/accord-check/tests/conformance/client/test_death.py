"""A client that exits is reported in the scenario that caused it, with the last message."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from accord_conformance.reports.report import EXIT_FAILED, RunResult, verdict
from accord_conformance.traffic.message import Frame
from conformance.client.double_factories import noted
from conformance.client.driven_client import Between, Json, check

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


def dies(when: Callable[[Json], bool], *, after: Callable[[Json], bool]) -> Between:
    """Return a client that disconnects at a message, after another one has arrived."""
    between = Between()
    seen: list[Json] = []

    def from_agent(message: Json) -> Json | None:
        if seen and when(message):
            return None
        seen.extend([message] if after(message) else [])
        return message

    between.from_agent = from_agent
    return between


def is_malformed(message: Json) -> bool:
    """Return whether it is the last message that `updates/unknown` sends."""
    params = message.get("params")
    return isinstance(params, dict) and params.get("update") == []


def is_completed(message: Json) -> bool:
    params = message.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    return isinstance(update, dict) and update.get("status") == "completed"


def is_array(message: Json) -> bool:
    return message.get("raw", b"").startswith(b"[")


def update_in(frame: Frame) -> Json:
    return json.loads(frame.text)["params"]["update"]


def outcomes(result: RunResult) -> dict[str, str]:
    return {one.scenario: one.outcome for one in result.scenario_results}


@BOTH
async def test_exit_after_the_last_response_counts_for_the_scenario(
    version: int, tmp_path: Path
) -> None:
    # It answers the probes, and exits when it handles an earlier message.
    between = dies(is_completed, after=is_malformed)
    result = await check(tmp_path, version, "check: updates", between=between)
    (left,) = result.disconnects
    assert left.scenario == "updates/unknown"
    assert left.outcome == "unfinished"
    assert "it disconnected after this scenario" in left.reason
    # It responded twice after the malformed updates; then the tool calls were completed.
    assert [update_in(frame).get("status") for frame in left.frames] == ["completed"] * 2
    assert [finding.rule for finding in result.reports[0].failures()] == []
    assert outcomes(result)["updates/options"] == "unfinished"
    assert verdict(result).status == EXIT_FAILED


@BOTH
async def test_exit_at_an_array_is_reported_with_the_array(version: int, tmp_path: Path) -> None:
    between = dies(is_array, after=lambda _: True)
    result = await check(tmp_path, version, "check: malformed", between=between)
    (left,) = result.disconnects
    assert left.scenario == "malformed/frames"
    assert any(frame.text.startswith(b"[") for frame in left.frames)
    assert [finding.rule for finding in result.reports[0].failures()] == []
    assert verdict(result).status == EXIT_FAILED
    assert "disconnected in malformed/frames" in verdict(result).text


async def test_client_whose_user_cancelled_can_exit(tmp_path: Path) -> None:
    between = dies(lambda _: True, after=noted("session/cancel"))
    result = await check(tmp_path, 1, "check: cancellation/turn", between=between)
    assert result.disconnects == []


# A client that dies when it has shown a call with malformed parts as completed.
FRAGILE = """
import json, subprocess, sys

report, prompt, *more = sys.argv[1:]
command = [sys.executable, "-m", "accord", "check", "client", "--report", report,
           "--patience", "0.2", "--version", "1", *more]
agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
ids = iter(range(1, 100))
odd = set()

def send(**message):
    agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")
    agent.stdin.flush()

def ask(method, params):
    ident = next(ids)
    send(id=ident, method=method, params=params)
    while line := agent.stdout.readline():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict):
            continue
        if message.get("id") == ident and "method" not in message:
            return message["result"]
        if "method" in message and "id" in message:
            error = {"code": -32601, "message": "Method not found"}
            send(id=message["id"], error=error)
        update = (message.get("params") or {}).get("update")
        if isinstance(update, dict):
            if update.get("title") == "Malformed parts":
                odd.add(update["toolCallId"])
            if update.get("status") == "completed" and update.get("toolCallId") in odd:
                sys.exit(3)
    sys.exit("the agent has ended")

ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
session = ask("session/new", {"cwd": "/", "mcpServers": []})["sessionId"]
ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": prompt}]})
agent.stdin.close()
agent.wait(10)
"""


def run_fragile(folder: Path, *more: str) -> Json:
    """Check the fragile client; return the report when it was written for the last time."""
    client, report = folder / "client.py", folder / "report.json"
    client.write_text(FRAGILE, "utf-8")
    words = [sys.executable, str(client), str(report), "check: updates", *more]
    subprocess.run(words, cwd=folder, timeout=50, check=False)
    # The agent survives its client.
    until = time.monotonic() + 40
    while time.monotonic() < until:
        if report.exists() and is_final(found := json.loads(report.read_text()), folder, more):
            return found
        time.sleep(0.1)
    raise AssertionError(report.read_text())


def is_final(found: Json, folder: Path, more: tuple[str, ...]) -> bool:
    rest = any(one["reason"].startswith("not run") for one in found["scenarios"])
    again = any("started again for" in one["advice"] for one in found["scenarios"])
    if not more:
        return rest
    return again and not rest and not list(folder.glob(".*rest"))


def test_remaining_scenarios_run_when_the_client_is_started_again(tmp_path: Path) -> None:
    again = f"{sys.executable} {tmp_path / 'client.py'} {tmp_path / 'report.json'} 'check: updates'"
    found = run_fragile(tmp_path, "--restart", again)
    (died,) = [one for one in found["scenarios"] if one["left"]]
    assert died["scenario"] == "updates/unknown"
    assert "it disconnected after this scenario" in died["reason"]
    assert f"The client was started again for the other scenarios: {again}." in died["advice"]
    assert all("Malformed parts" not in str(frame) for frame in died["frames"])
    others = {one["scenario"]: one["ending"] for one in found["scenarios"]}
    assert others["updates/options"] == "finished"
    assert found["exitStatus"] == 1
    assert not list(tmp_path.glob(".*rest"))


def test_report_says_how_to_run_the_remaining_scenarios(tmp_path: Path) -> None:
    found = run_fragile(tmp_path)
    rest = [one for one in found["scenarios"] if one["reason"].startswith("not run")]
    assert "updates/options" in [one["scenario"] for one in rest]
    assert all("--restart COMMAND" in one["advice"] for one in rest)
