"""How numbers and names of a report are written, on the page and at the terminal."""

from __future__ import annotations

import shlex

from accord.text.excerpt import one_line
from accord_fleet.addresses import is_address
from accord_fleet.report.statistics import Interval
from accord_fleet.report.summary import Case, Comparison, Outcome, Report, SuccessRate
from accord_trace.summary import duration

OUTCOMES: dict[Outcome, str] = {
    "passed": "passed",
    "not_passed": "not passed",
    "unfinished": "not finished",
    "grader_error": "grader error",
    "no_verdict": "no verdict",
    "excluded": "excluded",
}


def name(text: str) -> str:
    """Return a name of an agent, a task or a tag, which may be any text."""
    return one_line(text, 80)


def percent(share: float) -> str:
    """Return a share such as `62.5 %`."""
    return f"{share * 100:.1f} %"


def points(difference: float) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return f"{difference * 100:+.1f}"


def range_of(interval: Interval) -> str:
    """Return an interval such as `48.0 to 75.1 %`."""
    return f"{interval.low * 100:.1f} to {interval.high * 100:.1f} %"


def short_range(interval: Interval) -> str:
    """Return an interval without decimals, such as `48 to 75 %`."""
    return f"{interval.low * 100:.0f} to {interval.high * 100:.0f} %"


def probability(p: float) -> str:
    """Return a p value with two significant digits."""
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def money(amount: float, currency: str | None) -> str:
    """Return a cost with its currency, such as `0.0863 USD` and `1,323 USD`."""
    if abs(amount) >= 1e12:
        shown = f"{amount:.3g}"
    elif abs(amount) >= 1000:
        shown = f"{amount:,.0f}"
    else:
        shown = f"{amount:.2f}" if abs(amount) >= 1 else f"{amount:.3g}"
    return f"{shown} {one_line(currency, 12)}" if currency else shown


def number(value: float) -> str:
    """Return a count with separators."""
    return f"{value:,.0f}"


def short_number(value: float) -> str:
    """Return a count; millions with one decimal, such as `4.8 M`."""
    return f"{value / 1e6:,.1f} M" if value >= 1e6 else number(value)


def success(rate: SuccessRate | None) -> str:
    """Return a rate with its counts, or `not judged`."""
    if rate is None:
        return "not judged"
    return f"{percent(rate.rate)} ({rate.passed:,} of {rate.judged:,})"


def clear_winner(comparison: Comparison) -> str:
    """Return which agent is better, or that the difference may be chance."""
    if comparison.p_adjusted >= 0.05:
        return "not clear"
    return name(comparison.first if comparison.wins > comparison.losses else comparison.second)


def unjudged(report: Report) -> str:
    """Return why there is no rate at all, or an empty text."""
    if not report.results:
        return "No attempt has ended yet."
    if any(agent.success is not None for agent in report.agents):
        return ""
    if any(agent.outcomes.get("grader_error") for agent in report.agents):
        return "All graders failed, so the report says nothing about success."
    return "No attempt was graded, so the report says nothing about success."


def case_title(case: Case) -> str:
    """Return what happened in one attempt."""
    parts = [case.status if case.outcome in ("unfinished", "excluded") else OUTCOMES[case.outcome]]
    parts.append(duration(case.wall_s))
    if case.cost is not None:
        parts.append(money(case.cost, case.currency))
    if case.tokens is not None:
        parts.append(f"{case.tokens:,} tokens")
    parts.append("1 tool call" if case.tool_calls == 1 else f"{case.tool_calls:,} tool calls")
    return ", ".join(parts)


def inspect_command(case: Case) -> str | None:
    """Return the command that shows the recording of an attempt."""
    if case.trace is None:
        return None
    return command_for_trace(case.trace, case.task, case.agent, case.attempt)


def command_for_trace(trace: str, task: str, agent: str, attempt: int) -> str:
    """Return the command that shows a recording of a run; one at an address is saved first."""
    if not is_address(trace):
        return f"accord inspect {shlex.quote(trace)}"
    run, _, place = trace.partition("/traces/")
    file = shlex.quote(place.rpartition("/")[2])
    words = [run, task, "--agent", agent]
    if attempt > 1:
        words += ["--attempt", str(attempt)]
    return f"accord fleet show {shlex.join(words)} --save {file} && accord inspect {file}"
