"""Accord's client conforms, whatever the scenario agent does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from accord_conformance.client.scenario_agent import CLIENT_RULES
from accord_conformance.client.scenarios import client_scenarios
from accord_conformance.client.state_probe import NO_PROBE, PROBE_METHOD
from accord_conformance.reports.report import RunResult, verdict
from accord_conformance.rules.manifest import requirements
from conformance.client.double_factories import asks, changes
from conformance.client.double_factories import result as result_of
from conformance.client.driven_client import PROMPTS, Between, check, echo, log_in, look_around
from conformance.client.state_ledger import Ledger

BOTH = pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
# What depends on the capabilities of the client.
UNOFFERED = tuple(f"check: {area}" for area in ("malformed", "files", "terminals", "elicitation"))
# Accord's client does not keep `_meta`.
UNTOLD = {1: {"state/meta-replaced"}, 2: {"state/meta"}}


def failures(result: RunResult) -> list[tuple[str, str, str]]:
    (report,) = result.reports
    return [(found.rule, found.expected, found.got) for found in report.failures()]


def kept_by(result: RunResult) -> set[str]:
    return {rule for rule, found in result.reports[0].rules.items() if found.passed}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_accord_client_passes_everything_and_every_checked_rule_is_exercised(
    tmp_path: Path,
) -> None:
    def run(name: str, version: int, *prompts: str, **options: Any) -> Awaitable[RunResult]:
        folder = tmp_path / f"{name}-{version}"
        folder.mkdir()
        return check(folder, version, *prompts, answer_s=20.0, **options)

    def with_state(version: int) -> Awaitable[RunResult]:
        between = Between()
        Ledger(version).stands_in(between)
        return run("state", version, "check: state", does=look_around, window=True, between=between)

    everything = [
        run("all", version, *PROMPTS, does=look_around, window=True, tools=[echo])
        for version in (1, 2)
    ]
    states = [with_state(version) for version in (1, 2)]
    others = [
        run("both", 1, speaks=(1, 2)),
        *(run("answer", version, answer=99) for version in (1, 2)),
        *(run("login", version, login=True, does=log_in) for version in (1, 2)),
        *(run("bare", version, *UNOFFERED, offers=False) for version in (1, 2)),
    ]
    runs = [await one for one in everything]
    runs += await asyncio.gather(*states, *others)
    assert [found for one in runs for found in failures(one)] == []
    for version, result in zip((1, 2), runs, strict=False):
        ended = {played.scenario: played.outcome for played in result.scenario_results}
        missed = {name for name, ending in ended.items() if ending != "finished"}
        assert missed == UNTOLD[version]
        assert result.disconnects == []
        assert verdict(result).status == 0
        assert not os.listdir(tmp_path / f"all-{version}")  # noqa: PTH208  # in a coroutine
        assert result.reports[0].version == version
    in_states = {rule for one in client_scenarios() if one.area == "state" for rule in one.rules}
    for version, result in zip((1, 2), runs[2:], strict=False):
        assert {one.outcome for one in result.scenario_results} == {"finished"}
        mine = {rule for rule in in_states if version in requirements()[rule].versions}
        assert mine - kept_by(result) == set()
    kept = {rule for one in runs for rule in kept_by(one)}
    rules = {*CLIENT_RULES, *(rule for one in client_scenarios() for rule in one.rules)}
    assert sorted(rules - kept) == []


@BOTH
async def test_client_without_a_state_probe_is_not_judged_by_its_state(
    version: int, tmp_path: Path
) -> None:
    result = await check(tmp_path, version, "check: state", "check: cancellation/turn")
    assert failures(result) == []
    (report,) = result.reports
    reasons = {one.reason for one in result.scenario_results if one.scenario.startswith("state/")}
    assert reasons == {NO_PROBE}
    held = {rule for one in client_scenarios() if one.area == "state" for rule in one.rules}
    assert held & set(report.rules) == set()


async def test_client_that_reports_an_empty_state_is_not_judged(tmp_path: Path) -> None:
    between = Between()
    changes(asks(PROBE_METHOD), result_of({}))(between)
    result = await check(tmp_path, 2, "check: state", window=True, between=between)
    assert failures(result) == []
    assert {one.outcome for one in result.scenario_results} == {"not exercised"}


async def test_client_that_does_not_answer_a_probe_is_checked_otherwise(tmp_path: Path) -> None:
    between = Between()
    changes(asks(PROBE_METHOD), lambda *_: [])(between)
    result = await check(
        tmp_path, 2, "check: state/title", "check: malformed/lines", between=between, answer_s=1.0
    )
    assert failures(result) == []
    assert [one.outcome for one in result.scenario_results] == ["not exercised", "finished"]
