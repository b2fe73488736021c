"""A client that exits is reported in the scenario that caused it, with the last message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accord_conformance.reports.run_result import EXIT_FAILED, RunResult, verdict
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
    assert any(b'"update":[]' in frame.text for frame in left.frames)
    broken = {finding.rule for finding in result.reports[0].failures()}
    assert broken == {"R-GEN-11"}  # not R-CONF-12 of the next scenario
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


@BOTH
async def test_client_that_stays_is_not_reported(version: int, tmp_path: Path) -> None:
    result = await check(tmp_path, version, "check: malformed", "check: updates")
    assert result.disconnects == []
    assert verdict(result).status == 0
