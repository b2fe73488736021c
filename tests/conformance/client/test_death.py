"""A client that dies is told of in the scenario that killed it, with what it got last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accord_conformance.reports.run_result import EXIT_FAILED, RunResult, verdict
from conformance.client.doubling import noted
from conformance.client.driven import Between, Json, check

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])


def dies(when: Callable[[Json], bool], *, after: Callable[[Json], bool]) -> Between:
    """Return a client that hangs up at some message, once another one has come."""
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
    """Whether it is the last one that `updates/unknown` sends."""
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
async def test_death_after_the_last_answer_counts_for_the_scenario(
    version: int, tmp_path: Path
) -> None:
    # It answers the probes, and dies when it works on what it got before.
    between = dies(is_completed, after=is_malformed)
    result = await check(tmp_path, version, "check: updates", between=between)
    (left,) = result.disconnects
    assert left.scenario == "updates/unknown"
    assert left.outcome == "unfinished"
    assert "it disconnected after this scenario" in left.reason
    assert any(b'"update":[]' in frame.text for frame in left.frames)
    broken = {finding.rule for finding in result.reports[0].failures()}
    assert broken == {"R-GEN-11"}  # and not R-CONF-12, of the scenario that comes next
    assert outcomes(result)["updates/options"] == "unfinished"
    assert verdict(result).status == EXIT_FAILED


@BOTH
async def test_death_at_an_array_is_told_of_with_the_array(version: int, tmp_path: Path) -> None:
    between = dies(is_array, after=lambda _: True)
    result = await check(tmp_path, version, "check: malformed", between=between)
    (left,) = result.disconnects
    assert left.scenario == "malformed/frames"
    assert any(frame.text.startswith(b"[") for frame in left.frames)
    assert [finding.rule for finding in result.reports[0].failures()] == []
    assert verdict(result).status == EXIT_FAILED
    assert "disconnected in malformed/frames" in verdict(result).text


async def test_client_whose_user_cancelled_may_leave(tmp_path: Path) -> None:
    between = dies(lambda _: True, after=noted("session/cancel"))
    result = await check(tmp_path, 1, "check: cancellation/turn", between=between)
    assert result.disconnects == []


@BOTH
async def test_client_that_stays_has_not_left(version: int, tmp_path: Path) -> None:
    result = await check(tmp_path, version, "check: malformed", "check: updates")
    assert result.disconnects == []
    assert verdict(result).status == 0
