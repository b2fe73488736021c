"""Our own client keeps all rules, whatever the posing agent does to it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from accord.conformance.result import Result
from conformance.pose.driven import PROMPTS, check, converse, look_around

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


def failures(result: Result) -> list[tuple[str, str, str]]:
    (report,) = result.reports
    return [(found.rule, found.expected, found.got) for found in report.failures()]


@BOTH
async def test_our_client_passes_everything(version: int, tmp_path: Path) -> None:
    result = await check(tmp_path, version, *PROMPTS, does=look_around)
    assert failures(result) == []
    ended = {played.scenario: (played.ending, played.reason) for played in result.played}
    assert {name: end for name, end in ended.items() if end[0] != "finished"} == {}
    assert not os.listdir(tmp_path)  # noqa: PTH208  # in a coroutine
    assert result.reports[0].version == version


@BOTH
async def test_our_client_passes_over_a_process(version: int, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = (sys.executable, "-m", "accord", "check", "client", "--report", str(report))
    cwd = tmp_path / "work"
    cwd.mkdir()
    await converse(command, (version,), cwd, PROMPTS)
    said: dict[str, Any] = json.loads(report.read_text())
    (found,) = said["reports"]
    assert [rule for rule in found["rules"] if rule["broken"]] == []
    assert found["version"] == version
    passed = {rule["id"] for rule in found["rules"] if rule["outcome"] == "passed"}
    assert "R-STDIO-07" in passed
