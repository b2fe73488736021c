"""What a report says about results."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from accord_fleet.report.aggregate import report_of
from accord_fleet.report.page import report_page
from accord_fleet.report.summary import Report, failure_message, money
from accord_fleet.report.terminal import print_report
from accord_fleet.types import Failure, Result, Times, Usage, Verdict
from fleet.sample_results import HOSTILE, sample_results

YES, NO = Verdict(passed=True), Verdict(passed=False, reason="2 tests failed")


def result(task: str, agent: str, verdict: Verdict | None = None, **fields: object) -> Result:
    row = Result(
        task=task, agent=agent, status="finished", verdict=verdict, times=Times(started=0.0)
    )
    return msgspec.structs.replace(row, **fields)


def reported(*results: Result, **options: object) -> Report:
    return report_of(lambda: results, "RUN", **options)  # type: ignore[arg-type]


def page_of(report: Report) -> str:
    return "".join(report_page(report))


def printed(report: Report, width: int = 100) -> str:
    out = io.StringIO()
    print_report(report, Console(file=out, width=width))
    return out.getvalue()


def test_without_a_grader_the_report_says_nothing_about_success() -> None:
    report = reported(result("t", "a"), result("t", "b"))
    assert [agent.success for agent in report.agents] == [None, None]
    assert report.comparisons == ()
    assert report.failures == ()
    for shown in (page_of(report), printed(report)):
        assert "No attempt was graded, so the report says nothing about success." in shown
        assert "0.0 %" not in shown


def test_a_grader_that_failed_is_not_a_failure_of_the_agent() -> None:
    report = reported(result("t1", "a", Verdict(error="no pytest")), result("t2", "a", YES))
    (agent,) = report.agents
    assert agent.outcomes == {"grader_error": 1, "passed": 1}
    assert agent.success is not None
    assert (agent.success.passed, agent.success.judged) == (1, 1)
    assert [(one.kind, one.count) for one in report.failures] == [("grader error", 1)]
    only = reported(result("t", "a", Verdict(error="no pytest")))
    assert "All graders failed, so the report says nothing about success." in page_of(only)


def test_an_attempt_that_did_not_finish_has_not_passed_if_its_task_is_graded() -> None:
    failed = Failure(where="agent_exit", message="exited with status 9")
    report = reported(
        result("t1", "a", YES),
        result("t1", "b", status="failed", failure=failed),
        result("t2", "b", status="failed", failure=failed),  # nothing says that t2 is graded
    )
    a, b = report.agents
    assert a.success is not None
    assert b.success is not None
    assert (b.success.passed, b.success.judged) == (0, 1)
    known = reported(
        result("t2", "b", status="failed", failure=failed), has_grader=lambda task: task == "t2"
    )
    assert known.agents[0].success is not None


@pytest.mark.parametrize("where", ["workspace", "sandbox", "engine"])
def test_what_failed_around_the_agent_does_not_count_against_it(where: str) -> None:
    around = Failure(where=where, message="git failed")  # type: ignore[arg-type]
    report = reported(
        result("t", "a", YES),
        result("t", "b", status="failed", failure=around),
        result("t", "c", status="cancelled"),
        result("t", "d", status="lost"),
    )
    assert [agent.success is None for agent in report.agents] == [False, True, True, True]
    assert {one.kind for one in report.failures} == {f"failed: {where}", "cancelled", "lost"}


def test_agents_are_compared_on_the_tasks_judged_for_both() -> None:
    rows = [result(f"t{at}", "a", YES) for at in range(10)]
    rows += [result(f"t{at}", "b", NO if at < 8 else YES) for at in range(9)]
    (pair,) = reported(*rows).comparisons
    assert (pair.tasks, pair.wins, pair.losses, pair.ties) == (9, 8, 0, 1)
    assert pair.difference == pytest.approx(8 / 9)
    assert pair.p == pytest.approx(2 / 2**8)
    assert 0 < pair.interval.low < pair.difference < pair.interval.high <= 1


def test_several_attempts_at_a_task_are_compared_by_rate() -> None:
    rows = [result("t", "a", YES, attempt=1), result("t", "a", NO, attempt=2)]
    rows += [result("t", "b", NO, attempt=1), result("t", "b", NO, attempt=2)]
    report = reported(*rows)
    (pair,) = report.comparisons
    assert (pair.wins, pair.difference) == (1, 0.5)
    assert report.most_attempts == 2
    assert [[case.agent for case in cases] for cases in report.disagreements] == [["a", "b"]]


def test_costs_of_different_currencies_are_never_added() -> None:
    report = reported(
        result("t1", "a", usage=Usage(cost=1.0, currency="USD")),
        result("t2", "a", usage=Usage(cost=2.0, currency="USD")),
        result("t3", "a", usage=Usage(cost=9.0, currency="EUR")),
    )
    (agent,) = report.agents
    assert agent.costs == {"USD": 3.0, "EUR": 9.0}
    assert agent.currency == "USD"
    assert agent.cost is not None
    assert (agent.cost.count, agent.cost.max) == (2, 2.0)
    assert [case.cost for case in report.dearest] == [2.0, 1.0]


def test_messages_that_differ_in_numbers_count_as_one() -> None:
    rows = [
        result(f"t{at}", "a", status="failed", failure=Failure(where="turn", message=f"line {at}"))
        for at in range(3)
    ]
    same = Failure(where="start", message="exit status 137")
    rows += [result(f"s{at}", "a", status="failed", failure=same) for at in range(2)]
    report = reported(*rows)
    assert [(one.kind, one.messages[0].message) for one in report.failures] == [
        ("failed: turn", "line #"),
        ("failed: start", "exit status 137"),
    ]


def test_the_report_of_no_results_says_so_and_nothing_else() -> None:
    report = reported(planned=12)
    assert "No attempt of the run has ended yet." in page_of(report)
    assert "<h2" not in page_of(report)
    assert printed(report) == "0 of 12 results\nNo attempt has ended yet.\n"


def test_one_missing_result_is_singular() -> None:
    report = reported(result("t", "a", YES), planned=2)
    assert "1 of 2 results is missing" in page_of(report)
    assert "1 result is missing" in printed(report)


def test_text_of_agents_is_only_text() -> None:
    report = reported(
        result(HOSTILE, HOSTILE, NO, answer=HOSTILE, diff=f"+{HOSTILE}", tags=(HOSTILE,)),
        result(HOSTILE, "b", Verdict(passed=True, reason=HOSTILE), trace=f"traces/{HOSTILE}"),
        result("c", "b", status="failed", failure=Failure(where="turn", message=HOSTILE)),
    )
    page = page_of(report)
    assert "<img" not in page
    assert "<script" not in page
    for hidden in ("\u202e", "\x1b"):
        assert hidden not in page
        assert hidden not in printed(report)
    assert "\\u202e" in page


def test_a_case_has_the_command_that_opens_its_recording() -> None:
    rows = [result("t", "a", NO, trace="traces/t/a 1.acp.jsonl.zst")]
    report = reported(*rows)
    assert report.failed[0].trace == "RUN/traces/t/a 1.acp.jsonl.zst"
    command = "accord inspect 'RUN/traces/t/a 1.acp.jsonl.zst'"
    assert command.replace("'", "&#x27;") in page_of(report)
    assert command in printed(report)


def test_the_page_loads_and_runs_nothing() -> None:
    page = page_of(report_of(lambda: sample_results(30), "RUN"))
    assert "Content-Security-Policy\" content=\"default-src 'none'; style-src" in page
    for word in ("<script", "<link", "<iframe", "src=", "@import", "url("):
        assert word not in page.replace("img src=x", "")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_report_fits_the_terminal_but_commands_stay_whole(width: int) -> None:
    shown = printed(report_of(lambda: sample_results(40, attempts=2), "RUN"), width)
    tables, _, cases = shown.partition(" · ")
    if width > 40:  # else there are no tables
        assert max(map(len, tables.splitlines())) <= width
    commands = [line for line in cases.splitlines() if line.startswith("  accord inspect ")]
    assert len(commands) == 5
    assert all(line.endswith(".acp.jsonl.zst") for line in commands)
    assert "claude-agent-acp" in shown
    assert not any(line.endswith(" ") for line in shown.splitlines())


def test_long_and_wide_names_are_shortened_and_numbers_are_not() -> None:
    rows = [
        result("t" * 200, "n" * 3000, YES, tags=("x" * 5000,)),
        result("t" * 200, "界" * 300, NO, tags=("x" * 5000,)),
    ]
    lines = printed(reported(*rows), 80).splitlines()
    assert max(map(cell_len, lines[:10])) <= 80
    assert [line.split("  ")[-1] for line in lines[:10] if line.startswith("界")] == ["0 µs"]
    assert sum("100.0 % of 1" in line for line in lines) == 2


def test_two_hundred_agents_are_a_short_report() -> None:
    rows = [
        result(
            f"t{task}",
            f"agent-{number:03}",
            YES if task * number % 7 else NO,
            tags=("x", "y"),
            answer="z" * 5000,
            diff="+line\n" * 1000,
            usage=Usage(cost=0.01 * number, currency="USD"),
        )
        for task in range(12)
        for number in range(200)
    ]
    report = reported(*rows)
    assert all(len(cases) == 4 for cases in report.disagreements)
    outcomes = [{case.outcome for case in cases} for cases in report.disagreements]
    assert outcomes == [{"passed", "not_passed"}] * 10
    lines = printed(report, 80).splitlines()
    assert len(lines) < 120
    assert "… 170 more agents: see --html FILE or --json" in lines
    page = page_of(report)
    assert len(page) < 900_000
    assert page.count("<figure>") <= 2 * 12
    assert "12 of 200 agents, those with the most attempts." in page


def test_thousands_of_tags_are_a_short_report() -> None:
    rows = [result(f"t{at}", "a", YES, tags=(f"tag-{at}", "all")) for at in range(5000)]
    report = reported(*rows)
    assert report.tags == 5001
    assert next(iter(report.agents[0].by_tag)) == "all"
    assert "40 of 5,001 tags, those with the most tasks." in page_of(report)
    assert "… 4,981 more tags: see --html FILE or --json" in printed(report)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0.0, "0"), (0.00123, "0.00123"), (1.5, "1.50"), (12345.6, "12,346"), (1e300, "1e+300")],
)
def test_costs_are_readable(amount: float, shown: str) -> None:
    assert money(amount, "USD") == f"{shown} USD"
    assert money(amount, None) == shown


def test_many_results_need_little_memory() -> None:
    def many() -> Iterator[Result]:
        for row in range(2_000):
            agent = "a" if row % 2 else "b"
            task = f"task-{row // 2}"
            times = Times(started=float(row), wall_s=row % 97)
            yield Result(
                task=task,
                agent=agent,
                status="finished",
                verdict=YES if row % 3 else NO,
                times=times,
                answer="x" * 1000,
            )

    tracemalloc.start()
    report = report_of(many, "RUN")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.results == 2_000
    assert peak < 1e6  # the answers alone are 2 MB
    assert len(page_of(report)) < 300_000


def test_last_line_of_a_reason_and_first_line_of_an_error_are_shown() -> None:
    output = "FAILED test_a\n\n2 failed, 1 passed\n\n"
    assert failure_message(
        result("t", "a", Verdict(passed=False, reason=output)), "not_passed"
    ) == ("2 failed, 1 passed")
    broken = Verdict(error="pytest took more than 5 s\nmore", reason=output)
    assert failure_message(result("t", "a", broken), "grader_error") == "pytest took more than 5 s"
    silent = Verdict(passed=False)
    assert failure_message(result("t", "a", silent), "not_passed") == "the grader gave no reason"


def test_what_graders_cost_is_shown_apart_from_the_agents() -> None:
    used = Usage(total_tokens=1200, cost=0.25, currency="USD")
    graded = msgspec.structs.replace(YES, usage=used)
    own = Usage(total_tokens=50, cost=1.0, currency="USD")
    rows = [result("t1", "a", graded, usage=own), result("t2", "a", graded), result("t1", "b", YES)]
    report = reported(*rows)
    first, second = report.agents
    assert (first.grader_costs, first.grader_tokens) == ({"USD": 0.5}, 2400)
    assert (second.grader_costs, second.grader_tokens) == ({}, None)
    assert first.costs == {"USD": 1.0}
    assert "Graders, in addition: 0.5 USD, 2,400 tokens" in printed(report)
    assert "Cost of graders" in page_of(report)
    assert "graders" not in printed(reported(result("t1", "b", YES))).lower()


def test_failed_starts_name_the_machine() -> None:
    failed = Failure(where="start", message="no agent here")
    report = reported(
        result("t1", "a", YES),
        result(
            "t2",
            "a",
            status="failed",
            failure=failed,
            machine="n2",
            repeated=("n1: no program",),
        ),
    )
    kinds = {one.kind: [reason.message for reason in one.messages] for one in report.failures}
    assert kinds["started again on another machine"] == ["n1: no program"]
    assert kinds["failed: start"] == ["n2: no agent here"]
    for shown in (page_of(report), printed(report)):
        assert "started again on another machine" in shown
        assert "n1: no program" in shown
        assert "n2: no agent here" in shown
