"""What is shown of a run in progress: on a screen, as lines, and as JSON."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator

import msgspec
import pyte
import pytest
from rich.console import Console

from accord_fleet.plan import Plan
from accord_fleet.progress import JsonProgress, LineProgress, Tally, clock_time
from accord_fleet.progress_screen import ScreenProgress
from accord_fleet.run import RunObserver
from accord_fleet.types import AgentSpec, Failure, Result, Task, WorkItem
from fleet.sample_results import AGENTS, HOSTILE, sample_results


class Clock:
    """Seconds that only pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def plan(tasks: int, agents: list[str] | None = None) -> Plan:
    specs = tuple(AgentSpec(name=name, command=("x",)) for name in agents or AGENTS)
    return Plan(created=0.0, agents=specs, tasks=tasks, digest="")


def item(result: Result) -> WorkItem:
    return WorkItem(task=Task(id="t", prompts=("p",)), agent=result.agent)


def played(
    observer: RunObserver, clock: Clock, tasks: int = 40, results: int = 90, running: int = 4
) -> None:
    """Show a run of `tasks` tasks after `results` results, two seconds apart."""
    observer.begin(plan(tasks), 0)
    rows = list(sample_results(tasks))
    for row in rows[: results + running]:
        observer.starting(item(row))
    for row in rows[:results]:
        clock.now += 2.0
        observer.result(row)


class Screen(io.StringIO):
    """A terminal of a size, with what a program has drawn; a thread may draw, too."""

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__()
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.Stream(self._screen)
        self._lock = threading.Lock()
        self.console = Console(
            file=self, width=columns, height=lines, force_terminal=True, color_system="256"
        )

    def write(self, text: str) -> int:
        with self._lock:
            self._stream.feed(text.replace("\n", "\r\n"))
        return len(text)

    def lines(self) -> list[str]:
        with self._lock:
            return [line.rstrip() for line in self._screen.display if line.strip()]


@pytest.fixture(params=[(80, 24), (200, 50), (40, 12)], ids=str)
def screen(request: pytest.FixtureRequest) -> Screen:
    return Screen(*request.param)


def test_the_screen_shows_bars_rate_failures_spending_and_what_waits(screen: Screen) -> None:
    clock = Clock()
    progress = ScreenProgress("RUN", screen.console, clock=clock)
    played(progress, clock)
    progress.waiting(
        "qwen-code", "waiting 15 s: 5 starts in a row have failed; the last reason: no license"
    )
    progress.stage("stopping")
    shown = "\n".join(screen.lines())
    width = screen.console.width
    assert shown.startswith("90 of 120 results, 4 running")
    assert "30.0 results/min" in shown
    if width >= 80:
        assert "3:00 min" in shown.splitlines()[0]
        assert "60 s left (until " in shown
        for part in ("claude-agent-acp", "━", "30/40", "passed", "grader error", "tokens", "USD"):
            assert part in shown
        assert "qwen-code: waiting 15 s: 5 starts in a row have failed" in shown
        assert "No more attempts are started; 4 attempts will finish." in shown
    progress.stage("ended")


def test_the_screen_ends_with_a_summary_and_the_next_commands() -> None:
    clock, screen = Clock(), Screen(120, 30)
    progress = ScreenProgress("RUN", screen.console, clock=clock)
    played(progress, clock)
    progress.stage("ended")
    lines = screen.lines()
    assert lines[0].startswith("90 of 120 results; 3:00 min; ")
    assert "Continue with: accord fleet resume RUN" in lines
    assert "Show results with: accord fleet report RUN" in lines
    assert "━" not in "".join(lines)


def test_many_agents_are_one_bar_on_a_small_screen() -> None:
    clock, screen = Clock(), Screen(80, 24)
    progress = ScreenProgress("RUN", screen.console, clock=clock)
    progress.begin(plan(10, [f"agent-{number}" for number in range(30)]), 0)
    progress.stage("running")
    lines = screen.lines()
    assert "all agents" in lines[1]
    assert "0/300" in lines[1]
    assert len(lines) < 20
    progress.stage("ended")


def test_lines_are_printed_every_few_seconds_and_for_each_failure() -> None:
    clock, out = Clock(), io.StringIO()
    progress = LineProgress("RUN", out, clock=clock)
    played(progress, clock)
    progress.stage("ended")
    lines = out.getvalue().splitlines()
    assert lines[0] == "120 results for accord, claude-agent-acp, qwen-code"
    # 180 seconds pass; there are two seconds from one result to the next.
    assert len([line for line in lines if " running; " in line]) == 30
    rows = list(sample_results(40))[:90]
    failed = [
        row for row in rows if row.status != "finished" or (row.verdict and row.verdict.error)
    ]
    assert len([line for line in lines if " by " in line]) == len(failed)
    assert lines[-1] == "Show results with: accord fleet report RUN"


def test_a_flood_of_failures_is_a_few_lines() -> None:
    clock, out = Clock(), io.StringIO()
    progress = LineProgress("RUN", out, clock=clock)
    progress.begin(plan(1000, ["a"]), 0)
    row = next(sample_results(1))
    failed = msgspec.structs.replace(
        row, status="failed", verdict=None, failure=Failure(where="start", message=HOSTILE)
    )
    for _ in range(500):
        clock.now += 0.1
        progress.result(failed)
    lines = out.getvalue().splitlines()
    assert len(lines) < 9 * 25
    assert "more failures" in out.getvalue()
    assert "\x1b" not in out.getvalue()
    assert "\u202e" not in out.getvalue()


def test_events_of_json_are_complete() -> None:
    clock, out = Clock(), io.StringIO()
    progress = JsonProgress("RUN", out, clock=clock, now=lambda: 7.0)
    played(progress, clock, results=120, running=0)
    progress.waiting("openai", "429 for 3 s")
    progress.waiting("openai", None)
    progress.stage("stopping")
    progress.stage("ended")
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["event"] for one in events] == [
        "begin",
        *["result"] * 120,
        "waiting",
        "waiting",
        "stage",
        "end",
    ]
    assert events[0]["total"] == 120
    assert events[1]["rate"] is None
    assert events[120]["rate"] == pytest.approx(0.5, rel=0.05)
    assert events[120]["left_s"] == 0
    assert sum(events[-1]["outcomes"].values()) == events[-1]["done"] == 120
    assert events[-1]["seconds"] == 240.0


def test_the_rate_is_that_of_the_last_minute() -> None:
    clock = Clock()
    tally = Tally(clock)
    tally.begin(1000, 100, ["accord"])
    rows: Iterator[Result] = sample_results(1000)
    for _ in range(100):
        clock.now += 10
        tally.add(next(rows))
    for _ in range(180):
        clock.now += 0.5
        tally.add(next(rows))
    assert tally.rate == pytest.approx(2.0, rel=0.05)
    assert tally.done == 380
    assert tally.left_s == pytest.approx(310, rel=0.05)


def test_a_rate_is_not_claimed_from_few_results() -> None:
    clock = Clock()
    tally = Tally(clock)
    tally.begin(10, 0, ["accord"])
    clock.now += 1
    tally.add(next(sample_results(1)))
    assert tally.rate is None
    assert tally.left_s is None


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.4, "0 s"), (99, "99 s"), (100, "1:40 min"), (5999, "99:59 min"), (6000, "1:40 h")],
)
def test_times_have_a_unit(seconds: float, shown: str) -> None:
    assert clock_time(seconds) == shown
