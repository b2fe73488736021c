"""`accord check client --serve` finds the violations of clients, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from accord.text.excerpt import one_line
from accord_conformance.client.network import NETWORK_RULES, NetworkEnd
from accord_conformance.client.run import ClientRun
from accord_conformance.client.scenarios import client_scenarios, remote_client_scenarios
from accord_conformance.client.served_run import ServedRun
from accord_conformance.reports.report import RunResult
from accord_conformance.rules.manifest import requirements
from conformance.network.client_doubles import CONFORMING, DOUBLES, Double
from remote.quirk_client import ClientQuirks, QuirkClient, Refused

TOKEN = "a token for the doubles of clients"
GENERAL = {one.name for one in client_scenarios()}
NETWORK = [one for one in remote_client_scenarios() if one.name not in GENERAL]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the waits of the kit short, and the large messages small."""
    scenarios = "accord_conformance.client.scenarios.network"
    monkeypatch.setattr(f"{scenarios}.LARGE_BYTES", 31 * 1024)
    monkeypatch.setattr(f"{scenarios}.LARGE_S", 2.0)
    monkeypatch.setattr(f"{scenarios}.REOPEN_S", 2.0)
    monkeypatch.setattr(f"{scenarios}.SETTLE_S", 1.0)
    monkeypatch.setattr(f"{scenarios}.MOMENT_S", 0.3)
    monkeypatch.setattr("accord_conformance.client.served_run.LINGER_S", 0.3)
    monkeypatch.setattr("accord_conformance.client.network.PING_S", 0.05)


async def check(
    quirks: ClientQuirks,
    scheme: Literal["http", "ws"],
    folder: Path,
    *prompts: str,
    loads: bool = False,
) -> RunResult:
    """Let a client connect to the kit and send prompts."""

    def make_run(end: NetworkEnd) -> ClientRun:
        scenarios = remote_client_scenarios()
        return ClientRun(
            end, scenarios, network=end, answer_s=2.0, user_timeout_s=2.0, on_result=played
        )

    def played(result: RunResult) -> None:
        if result.scenario_results:
            is_played.set()

    is_played = asyncio.Event()

    served = ServedRun(make_run, token=TOKEN)
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(served.run(asyncio.Event(), port.set_result))
    url = f"{scheme}://127.0.0.1:{await port}/acp"
    # One client misses the end of its turn; the others have time on a busy machine.
    patience_s = 8 if "deaf after reopening" in quirks.faults else 40
    with suppress(Refused, TimeoutError):
        async with asyncio.timeout(patience_s), QuirkClient(url, quirks, token=TOKEN) as client:
            await client.initialize()
            session = await client.new_session(str(folder))
            for text in prompts:
                try:
                    await client.prompt(session, text)
                except Refused:
                    await is_played.wait()  # the session has failed, and the client stays
            if loads:
                await client.load_session("another-session", str(folder))
    async with asyncio.timeout(20):
        result = await running
    assert result.kit_errors == []
    return result


def medium(scheme: str) -> str:
    return "http" if scheme == "http" else "websocket"


def broken(result: RunResult) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in result.reports[0].failures():
        if finding.rule in NAMES:
            shown = one_line(f"{finding.where}: {finding.expected} | {finding.got}")
            found.setdefault(finding.rule, []).append(shown)
    return found


NAMES = {*NETWORK_RULES, *(rule for one in NETWORK for rule in one.rules)}


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_client_that_follows_the_rules_has_no_findings(
    scheme: Literal["http", "ws"], tmp_path: Path
) -> None:
    last = "network/refused-stream"  # after it, the client leaves
    names = [one.name for one in NETWORK if one.name != last and medium(scheme) in one.media]
    plays = ["updates/subagents", *names]
    kept: set[str] = set()
    for prompts in (plays, [last]) if scheme == "http" else (plays,):
        result = await check(CONFORMING, scheme, tmp_path, *(f"check: {name}" for name in prompts))
        assert broken(result) == {}
        kept |= {rule for rule, found in result.reports[0].rules.items() if found.passed}
    area = "R-HTTP-" if scheme == "http" else "R-WS-"
    seldom = {"R-HTTP-16"}  # when it loads a session
    assert sorted(rule for rule in NAMES - kept - seldom if rule.startswith(area)) == []


@pytest.mark.parametrize("double", DOUBLES, ids=repr)
async def test_double_fails_this_rule_and_no_other(double: Double, tmp_path: Path) -> None:
    scheme: Literal["http", "ws"] = "ws" if double.rule.startswith("R-WS-") else "http"
    result = await check(double.quirks, scheme, tmp_path, double.plays, loads=double.loads)
    found = broken(result)
    assert set(found) == {double.rule} | double.also, (found, result.scenario_results)
    for finding in result.reports[0].rules[double.rule].failures:
        assert finding.by == "client"
        assert finding.expected
        assert finding.got
        assert finding.frames
        assert not any(TOKEN.encode() in frame.text for frame in finding.frames)


def test_every_rule_has_a_double_and_is_marked() -> None:
    assert sorted(NAMES - {double.rule for double in DOUBLES}) == []
    assert sorted(rule for rule in NAMES if requirements()[rule].how != "checked") == []
