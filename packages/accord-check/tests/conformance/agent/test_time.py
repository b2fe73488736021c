"""The time of a run is limited: silence, falsely claimed versions, turns that do not end."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable

import pytest

from accord.script_agent.agent import ScriptAgent
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.agent.settings import Settings
from accord_conformance.cli.run_options import Progress
from accord_conformance.reports.report import EXIT_FAILED, RunResult, ScenarioResult, verdict
from conformance.agent.filtered_agent import PROMPTS, FilteredTransport, Json, MessageFilter
from quirk import quirk
from requirement import requirement


async def run(
    make: type[MessageFilter],
    *names: str,
    versions: tuple[int, ...] = (1, 2),
    budget_s: float | None = None,
    begun: Callable[[int, str], None] = lambda _, __: None,
) -> RunResult:
    settings = Settings(timeout=120.0, answer=10.0, prompts=dict(PROMPTS))
    chosen = [one for one in agent_scenarios() if not names or one.name in names]

    def connect(noise: Callable[[str], None]) -> FilteredTransport:
        return FilteredTransport(make, ScriptAgent())

    return await AgentRun(connect, chosen, settings, budget_s=budget_s, on_start=begun).run(
        versions
    )


class FalseVersion2(MessageFilter):
    """Returns the requested version, and uses version 1."""

    only_version_1 = True

    def down(self, message: Json) -> Json | None:
        call = self.calls.get(repr(message.get("id")), {})
        if call.get("method") == "initialize" and "result" in message:
            asked = call["params"]["protocolVersion"]
            return {**message, "result": {**message["result"], "protocolVersion": asked}}
        return message


class BareVersion2(FalseVersion2):
    """Returns the requested version and nothing else."""

    def down(self, message: Json) -> Json | None:
        passed = super().down(message)
        if passed is not None and "protocolVersion" in (passed.get("result") or {}):
            version = passed["result"]["protocolVersion"]
            return {**passed, "result": {"protocolVersion": version}}
        return passed


@quirk("false-v2")
@requirement("R-INIT-06")
@pytest.mark.parametrize("make", [FalseVersion2, BareVersion2])
async def test_false_version_2_is_reported_once_and_judged_as_version_1(
    make: type[MessageFilter],
) -> None:
    names = ("prompts/text", "sessions/new", "handshake/version-2-params", "handshake/versions")
    async with asyncio.timeout(30):
        result = await run(make, *names)
    assert [report.version for report in result.reports] == [1]
    assert result.failed_rules() == [("R-INIT-06", 1)]
    assert "in the form of version 1 (R-INIT-06)" in result.unsupported[2]
    assert {one.version for one in result.scenario_results} == {1}


@requirement("R-INIT-06")
async def test_false_version_2_is_judged_as_version_1_even_if_only_2_is_checked() -> None:
    async with asyncio.timeout(30):
        result = await run(FalseVersion2, "prompts/text", versions=(2,))
    assert [report.version for report in result.reports] == [1]
    assert result.failed_rules() == [("R-INIT-06", 1)]
    assert [(one.scenario, one.outcome) for one in result.scenario_results] == [
        ("prompts/text", "finished")
    ]


class ReadsOnlyMessages(MessageFilter):
    """Does not respond to frames that it cannot decode."""

    def raw(self, frame: bytes) -> bool:
        return False

    def up(self, message: Json) -> Json | None:
        return message if "method" in message else None


@requirement("R-ERR-03")
async def test_unanswered_malformed_frames_take_seconds_not_minutes() -> None:
    result = await run(ReadsOnlyMessages, "malformed/frames", versions=(1,))
    (played,) = result.scenario_results
    assert played.outcome == "finished"
    assert result.reports[0].rules["R-ERR-03"].failed == 3
    assert result.reports[0].rules["R-BATCH-10"].failed == 2
    assert result.seconds < 10


class EndsNoTurn(MessageFilter):
    """Does not answer prompts."""

    def up(self, message: Json) -> Json | None:
        return None if message.get("method") == "session/prompt" else message


async def test_run_ends_when_its_time_is_spent_and_does_not_pass() -> None:
    async with asyncio.timeout(20):
        result = await run(EndsNoTurn, "prompts/text", "sessions/new", budget_s=1.0)
    assert result.exceeded_budget_s == 1.0
    reasons = {one.scenario: one.reason for one in result.scenario_results}
    assert reasons["prompts/text"] == "the time budget was exceeded"
    assert result.unsupported[2] == "the time budget was exceeded"
    found = verdict(result)
    assert found.status == EXIT_FAILED
    assert "the time budget of 1 s was exceeded" in found.text


class Mute(MessageFilter):
    """Responds to nothing."""

    def up(self, message: Json) -> Json | None:
        return None


async def test_handshake_counts_for_the_time_limit() -> None:
    async with asyncio.timeout(20):
        result = await run(Mute, budget_s=0.2)
    assert result.exceeded_budget_s == 0.2
    assert result.supported == []


async def test_run_reports_its_progress() -> None:
    begun: list[tuple[int, str]] = []
    await run(
        MessageFilter, "sessions/new", begun=lambda version, name: begun.append((version, name))
    )
    assert begun == [(1, "handshake"), (1, "sessions/new"), (2, "handshake"), (2, "sessions/new")]


class Written(io.StringIO):
    """A stream that signals each write."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.news = asyncio.Event()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        self.news.set()
        return super().write(text)


async def test_progress_is_a_line_from_time_to_time() -> None:
    stream = Written(is_terminal=False)
    async with asyncio.timeout(10), Progress(stream, budget_s=60, every_s=0.01) as progress:
        progress.total = 2
        progress.on_start(1, "handshake")
        progress.on_start(1, "prompts/text")
        progress.on_result(
            ScenarioResult(scenario="prompts/text", about="", version=1, outcome="finished")
        )
        progress.on_start(1, "mcp/stdio")
        await stream.news.wait()
    first, *_ = stream.getvalue().splitlines()
    assert " s (limit 60 s): version 1, 1 of 2 scenarios done; now mcp/stdio (0 s)" in first


async def test_progress_at_a_terminal_is_one_line_that_disappears() -> None:
    stream = Written(is_terminal=True)
    async with asyncio.timeout(10), Progress(stream, every_s=0.01) as progress:
        progress.on_start(1, "mcp/stdio")
        await stream.news.wait()
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")
