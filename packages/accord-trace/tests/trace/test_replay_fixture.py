"""The fixture `replayed_agent` of the pytest plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

import accord
from accord_conformance.pytest_plugin import ReplayedAgents
from requirement import requirement
from sample_recordings import one_turn

pytest_plugins = ["pytester"]

OPTIONS = ("-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return one_turn().save(tmp_path / "r.acp.jsonl")


@requirement("R-TRACE-04")
async def test_client_in_this_process(replayed_agent: ReplayedAgents, recording: Path) -> None:
    agent = replayed_agent(recording)
    async with accord.connect(agent) as connected:
        session = await connected.new_session(".")
        async with session.prompt("Fix it") as turn:
            await turn.wait()
    assert turn.text.startswith("Hello world")
    assert turn.stop_reason == "end_turn"
    agent.assert_matched()
    with pytest.raises(AssertionError, match="not used: session/load"):
        agent.assert_matched(completely=True)


@requirement("R-TRACE-04")
def test_client_that_starts_the_command(replayed_agent: ReplayedAgents, recording: Path) -> None:
    agent = replayed_agent(recording)
    answer = accord.ask(agent.command, "Break it", cwd=recording.parent)
    assert answer.text.startswith("Hello world")
    [departure] = agent.departures
    assert str(departure).endswith('expected "Fix it", got "Break it"')
    with pytest.raises(AssertionError, match="The client departed from"):
        agent.assert_matched()


TESTS = """
import accord
import pytest

@pytest.mark.parametrize(
    ("prompt", "strict", "passes"),
    [("Fix it", True, True), ("Break it", False, True), ("Break it", True, True),
     ("Break it", False, False)],
    ids=["same", "lenient", "strict", "report"],
)
def test_client(replayed_agent, prompt, strict, passes):
    agent = replayed_agent("r.acp.jsonl", strict=strict)
    answer = accord.ask(agent, prompt, cwd=".")
    assert strict or answer.stop_reason == "end_turn"
    assert passes
"""


@requirement("R-TRACE-04")
def test_recording_is_next_to_the_test_and_strict_fails_it(pytester: pytest.Pytester) -> None:
    one_turn().save(pytester.path / "r.acp.jsonl")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess(*OPTIONS, "-v")
    result.assert_outcomes(passed=2, failed=2, errors=1)
    found = {
        (report.nodeid.partition("[")[2].rstrip("]"), report.when)
        for report in result.reprec.getfailures()  # type: ignore[attr-defined]
    }
    assert found == {("strict", "call"), ("strict", "teardown"), ("report", "call")}
    # The departures are in the report of a failed test.
    result.stdout.fnmatch_lines(
        ["*replay of r.acp.jsonl*", "departure 1: session/prompt*", "not used: session/load*"]
    )
