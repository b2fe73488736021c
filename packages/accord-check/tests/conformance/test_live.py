"""The script agent and Accord's client conform, as real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord_conformance.judges.observer import Observer, judge_recording
from accord_conformance.reports.report import Report
from accord_conformance.traffic import recording
from conformance.live import record

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


def failures(report: Report) -> list[tuple[str, str, str]]:
    return [(found.rule, found.expected, found.got) for found in report.failures()]


@BOTH
async def test_script_agent_and_accord_client_conform(version: int, tmp_path: Path) -> None:
    observer = Observer()
    frames = await record(version, tmp_path)
    for time, sender, text in frames:
        observer.receive(sender, text, time)
    observer.end("client")
    report = observer.finish()
    assert failures(report) == []
    assert report.version == version
    assert sum(result.passed > 0 for result in report.rules.values()) > 75

    lines = [recording.write(time, sender, text) for time, sender, text in frames]
    assert failures(judge_recording(lines).finish()) == []

    # The direction is not recorded: it follows from the frames.
    guessed = list(recording.read(text for _, _, text in frames))
    senders = [item.sender for item in guessed if isinstance(item, recording.Recorded)]
    assert senders == [sender for _, sender, _ in frames]
