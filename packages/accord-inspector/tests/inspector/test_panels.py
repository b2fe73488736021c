"""The panels: capabilities, processes, statistics."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from accord_inspector.live_inspection import AgentInspection
from accord_inspector.panels import (
    ResourceMeter,
    RunningStatistics,
    UpdateRate,
    capability_panel,
    redacted_environment,
)
from accord_trace.records import Record


def test_capabilities_of_v1_are_listed_with_meaning_methods_and_unknown_ones() -> None:
    sent = {
        "protocolVersion": 1,
        "agentInfo": {"name": "a", "version": "1"},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "smell": True},
            "sessionCapabilities": {"list": {}},
            "teleport": {"range": 3},
        },
        "authMethods": [{"id": "x", "name": "X"}],
    }
    panel = capability_panel("agent", sent, 1)
    rows = {row.path: row for row in panel.rows}
    assert (panel.version, panel.info, len(panel.auth_methods)) == (1, sent["agentInfo"], 1)
    assert rows["loadSession"].offered
    assert rows["loadSession"].methods == ["session/load"]
    assert rows["promptCapabilities.image"].offered
    assert not rows["promptCapabilities.audio"].offered
    assert rows["sessionCapabilities.list"].methods == ["session/list"]
    assert "`logout` is served" in rows["auth.logout"].meaning
    unknown = {path for path, row in rows.items() if not row.known}
    assert unknown == {"promptCapabilities.smell", "teleport"}
    assert rows["teleport"].value == {"range": 3}
    assert not rows["_meta.steering"].offered
    steered = capability_panel("agent", {**sent, "_meta": {"steering": {"supported": True}}}, 1)
    assert steered.rows[-1].offered
    assert steered.rows[-1].methods == ["_session/steering"]


def test_capabilities_of_v2_and_of_a_client_are_listed() -> None:
    sent = {"protocolVersion": 2, "info": {"name": "c"}, "capabilities": {"elicitation": {}}}
    rows = {row.path: row for row in capability_panel("client", sent, 2).rows}
    assert rows["elicitation"].offered
    assert "elicitation/create" in rows["elicitation"].methods
    agent = capability_panel("agent", {"capabilities": {"session": {"fork": {}}}}, 2)
    offered = {row.path for row in agent.rows if row.offered}
    assert offered == {"session", "session.fork"}


def test_capabilities_of_another_type_are_not_followed() -> None:
    panel = capability_panel("agent", {"agentCapabilities": ["x"], "authMethods": 3}, 1)
    assert not any(row.offered for row in panel.rows)


def test_values_of_the_environment_are_redacted_unless_they_are_never_secrets() -> None:
    environment = {"OPENAI_API_KEY": "sk-1", "MY_SETTING": "x", "PATH": "/bin", "LC_ALL": "C"}
    assert redacted_environment(environment) == {
        "LC_ALL": "C",
        "MY_SETTING": "[redacted]",
        "OPENAI_API_KEY": "[redacted]",
        "PATH": "/bin",
    }


def test_a_process_and_those_that_it_starts_are_measured() -> None:
    inner = "import sys; print('ready', flush=True); sys.stdin.read()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    environment = {**os.environ, "SECRET_OF_TEST": "hidden"}
    with subprocess.Popen(
        [sys.executable, "-c", outer],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        meter = ResourceMeter()
        meter.watch(process.pid)
        sample = meter.measure(1.5)
        assert sample is not None
        assert (sample.at, sample.processes) == (1.5, 2)
        assert sample.memory > 1_000_000
        assert list(meter.samples) == [sample]
        assert meter.environment["SECRET_OF_TEST"] == "[redacted]"
        process.communicate()
    assert meter.measure(2.5) is None


def test_the_rate_of_updates_has_a_bounded_number_of_points() -> None:
    rate = UpdateRate()
    for second in range(1000):
        for _ in range(4):
            rate.add(float(second))
    points = rate.points()
    assert len(points) <= 240
    assert sum(per_second for _, per_second in points) * rate.span_s == 4000
    assert points[3][1] == 4.0


def _record(ts: float, **fields: object) -> Record:
    ends = {"from": "Client", "to": "Agent", "dir": "to_agent", "conn": "1"}
    if fields.get("type") != "request":
        ends |= {"from": "Agent", "to": "Client", "dir": "to_client"}
    return msgspec.convert({"ts": ts, "bytes": 10, **ends, **fields}, Record)


def test_statistics_are_counted_in_parts_while_the_recording_grows() -> None:
    prompt = {"method": "session/prompt", "session": "s"}
    records = [_record(0, type="request", id=msgspec.Raw(b"1"), **prompt)]
    statistics = RunningStatistics(records.__getitem__, lambda: len(records))
    assert statistics.advance(1)
    assert statistics.result()["methods"][0]["unanswered"] == 1
    update = {"method": "session/update", "session": "s"}
    records.append(_record(0.5, type="notification", **update))
    records.append(
        _record(
            2.0, type="response", id=msgspec.Raw(b"1"), payload=msgspec.Raw(b'{"stopReason":"x"}')
        )
    )
    assert not statistics.is_complete
    while not statistics.advance(0):
        pass
    result = statistics.result()
    assert (result["read"], result["total"], result["complete"]) == (3, 3, True)
    (turn,) = result["turns"]
    assert (turn["first_update_s"], turn["seconds"], turn["stop_reason"]) == (0.5, 2.0, "x")
    assert all(not method["unanswered"] for method in result["methods"])
    assert sum(per_second for _, per_second in result["rate"]) > 0


@pytest.mark.parametrize("redact", [True, False])
async def test_stderr_on_the_page_has_no_secret_unless_they_are_kept(
    tmp_path: Path, redact: bool
) -> None:
    inspection = AgentInspection(
        lambda *_: pytest.fail("started"),
        command=["a"],
        title="a",
        output=tmp_path / "a.acp.jsonl",
        redact=redact,
    )
    for line in ("GET https://x.test/?api_key=s3cr3t", "Authorization: Bearer s3cr3t", "ready"):
        inspection.add_stderr(line)
    shown = str([item["text"] for item in inspection.stderr])
    assert ("s3cr3t" in shown) is not redact
    assert "ready" in shown
    inspection.recording.close()
