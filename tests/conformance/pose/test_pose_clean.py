"""Our own client keeps all rules, whatever the posing agent does to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accord.conformance.result import Result
from conformance.pose.driven import PROMPTS, check, look_around

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
