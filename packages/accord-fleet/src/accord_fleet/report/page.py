"""The report as one HTML page: it loads nothing, runs nothing and needs no network.

All that comes from agents, tasks and graders is text: it is escaped, and characters that hide or
turn text are spelt out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from itertools import groupby, starmap

import msgspec

from accord.text.excerpt import visible
from accord_fleet.report.summary import (
    OUTCOMES,
    AgentSummary,
    Case,
    Distribution,
    Interval,
    Report,
    case_title,
    clear_winner,
    inspect_command,
    money,
    name,
    number,
    percent,
    points,
    probability,
    range_of,
    unjudged,
)
from accord_trace.summary import counted, duration

# Charts as SVG: they have shapes only, so that text keeps its size on narrow screens.

_WIDTH, _HEIGHT = 800, 100  # units of the drawing: it fills the width of its place


def interval_bar(rate: float, interval: Interval) -> str:
    """Return a line from 0 to 100 % with the interval and the rate; the text is next to it."""
    low, high = interval.low * _WIDTH, interval.high * _WIDTH
    at = rate * _WIDTH
    quarters = "".join(
        f'<rect class="axis" x="{_WIDTH * part / 4 - 0.5:.1f}" y="0" width="1" height="24"/>'
        for part in range(5)
    )
    return (
        f'<svg class="interval" viewBox="-4 0 {_WIDTH + 8} 24" preserveAspectRatio="none" '
        f'aria-hidden="true">{quarters}'
        f'<rect class="range" x="{low:.1f}" y="7" width="{max(high - low, 1):.1f}" height="10"/>'
        f'<rect class="point" x="{at - 3:.1f}" y="2" width="6" height="20"/></svg>'
    )


def histogram(values: Distribution, label: str) -> str:
    """Return the bars of a distribution; `label` describes them for screen readers."""
    counts = values.counts or (values.count,)
    top, step = max(counts), _WIDTH / len(counts)
    bars: list[str] = []
    for index, count in enumerate(counts):
        if not count:
            continue
        height = max(_HEIGHT * count / top, 2.0)
        bars.append(
            f'<rect class="bar" x="{index * step + step * 0.06:.1f}" '
            f'y="{_HEIGHT - height:.1f}" width="{step * 0.88:.1f}" height="{height:.1f}"/>'
        )
    return (
        f'<svg class="histogram" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{escape(label)}">{"".join(bars)}</svg>'
    )


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_MOST_AGENTS = 200  # rows of a table
_MOST_CHARTS = 12  # agents
_MOST_COLUMNS = 12  # agents
_MOST_TAG_ROWS = 400
_Cell = str | tuple[str, str]
"""Text, or a class and text."""


def report_page(report: Report) -> Iterator[str]:
    """Yield the page in pieces."""
    title = f"Fleet report: {_text(report.run)}" if report.run else "Fleet report"
    agents = len(report.agents)
    report = msgspec.structs.replace(report, agents=report.agents[:_MOST_AGENTS])
    style = _resource("page.css")
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>\n{style}</style></head>\n<body><main>\n"
    yield f"<h1>{title}</h1>\n"
    yield from _overview(report, agents)
    if report.results:
        yield from _results(report)
    yield "</main></body></html>\n"


def _results(report: Report) -> Iterator[str]:
    yield from _success(report)
    yield from _tags(report)
    yield from _comparisons(report)
    yield from _distributions(report)
    yield from _failures(report)
    yield from _cases(report)
    yield _resource("method.html")


def _overview(report: Report, agents: int) -> Iterator[str]:
    if not report.results:
        planned = "" if report.planned is None else f" It has {counted(report.planned, 'attempt')}."
        yield f"<p><strong>No attempt of the run has ended yet.</strong>{planned}</p>\n"
        return
    many = "" if report.most_attempts < 2 else f", up to {report.most_attempts} attempts each"
    yield (
        f"<p>{counted(report.results, 'result')}: {counted(report.tasks, 'task')}, "
        f"{counted(agents, 'agent')}{many}.</p>\n"
    )
    if agents > len(report.agents):
        yield _shown(len(report.agents), agents, "agents")
    if report.first_started is not None and report.last_ended is not None:
        start = datetime.fromtimestamp(report.first_started, UTC)
        took = duration(max(0.0, report.last_ended - report.first_started))
        yield f'<p class="soft">From {start:%Y-%m-%d %H:%M:%S} UTC, {took}.</p>\n'
    if report.planned is not None and report.results < report.planned:
        left = report.planned - report.results
        yield (
            f"<p><strong>The run is not complete:</strong> {left:,} of "
            f"{counted(report.planned, 'result')} {'is' if left == 1 else 'are'} missing.</p>\n"
        )
    sections = {
        "success": "Success",
        "comparison": "Comparison" if report.comparisons else "",
        "time": "Time, cost and tokens",
        "failures": "Failures",
        "cases": "Cases",
        "method": "Method",
    }
    links = "".join(
        f'<li><a href="#{at}">{shown}</a></li>' for at, shown in sections.items() if shown
    )
    yield f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n'


def _success(report: Report) -> Iterator[str]:
    yield '<h2 id="success">Success</h2>\n'
    if why := unjudged(report):
        yield f"<p>{why}</p>\n"
    else:
        yield "<p>The share of judged attempts that passed, and its interval of 95 %.</p>\n"
        yield '<ul class="rates">\n'
        for agent in report.agents:
            rate = agent.success
            if rate is None:
                yield f"<li><b>{_text(agent.name)}</b><span></span><span>not judged</span></li>\n"
                continue
            yield (
                f"<li><b>{_text(agent.name)}</b>{interval_bar(rate.rate, rate.interval)}"
                f"<span>{percent(rate.rate)} ({range_of(rate.interval)})</span></li>\n"
            )
        yield "</ul>\n"
    has_scores = any(agent.mean_score is not None for agent in report.agents)
    head = ["Agent", "Attempts", "Rate", *(OUTCOMES[one] for one in OUTCOMES)]
    rows: list[list[_Cell]] = []
    for agent in report.agents:
        counts = [number(agent.outcomes.get(one, 0)) for one in OUTCOMES]
        rate = "not judged" if agent.success is None else percent(agent.success.rate)
        row: list[_Cell] = [agent.name, number(agent.attempts), rate, *counts]
        if has_scores:
            row.append("" if agent.mean_score is None else f"{agent.mean_score:.3g}")
        rows.append(row)
    if has_scores:
        head.append("Mean score")
    if rows:
        yield _table("Outcomes of attempts", head, rows)


def _tags(report: Report) -> Iterator[str]:
    tags = list(dict.fromkeys(tag for agent in report.agents for tag in agent.by_tag))
    if not tags:
        return
    rows: list[list[_Cell]] = []
    for tag in tags:
        for agent in report.agents:
            rate = agent.by_tag.get(tag)
            if rate is not None:
                cells = (percent(rate.rate), range_of(rate.interval))
                rows.append(
                    [tag, ("name", agent.name), *cells, f"{rate.passed:,}", f"{rate.judged:,}"]
                )
    yield "<h3>By tag</h3>\n"
    most = rows[:_MOST_TAG_ROWS]
    shown = len({row[0] for row in most})
    if shown < report.tags or len(most) < len(rows):
        yield _shown(shown, report.tags, "tags, those with the most tasks")
    head = ["Tag", "Agent", "Rate", "95 % interval", "Passed", "Judged"]
    yield _table("Success by tag and agent", head, most)


def _comparisons(report: Report) -> Iterator[str]:
    if not report.comparisons:
        return
    yield '<h2 id="comparison">Comparison</h2>\n'
    yield (
        "<p>Each pair of agents, on the tasks that were judged for both. The difference is the "
        "rate of the first agent minus that of the second, in percentage points.</p>\n"
    )
    compared = len({name for one in report.comparisons for name in (one.first, one.second)})
    if compared < len(report.agents):
        yield _shown(compared, len(report.agents), "agents, those with the most attempts")
    head = ["First", "Second", "Better", "Tasks", "First won", "Second won", "Same"]
    head += ["Difference", "95 % interval", "p", "p adjusted"]
    rows: list[list[_Cell]] = [
        [
            one.first,
            ("name", one.second),
            ("name", clear_winner(one)),
            number(one.tasks),
            number(one.wins),
            number(one.losses),
            number(one.ties),
            points(one.difference),
            f"{points(one.interval.low)} to {points(one.interval.high)}",
            probability(one.p),
            probability(one.p_adjusted),
        ]
        for one in report.comparisons
    ]
    yield _table("Pairs of agents on the same tasks", head, rows)


def _distributions(report: Report) -> Iterator[str]:
    yield '<h2 id="time">Time, cost and tokens</h2>\n'
    currency = next((one.currency for one in report.agents if one.currency), None)

    def cost(value: float) -> str:
        return money(value, currency)

    yield from _measured("Wall time of an attempt", report, lambda one: one.wall_s, duration)
    yield from _measured("Cost of an attempt", report, lambda one: one.cost, cost)
    yield from _measured("Tokens of an attempt", report, lambda one: one.tokens, number)
    yield from _measured("Tool calls of an attempt", report, lambda one: one.tool_calls, number)
    if not any(one.cost for one in report.agents):
        yield "<p>No agent reported a cost.</p>\n"
    if not any(one.tokens for one in report.agents):
        yield "<p>No agent reported tokens.</p>\n"
    has_graders = any(one.grader_costs or one.grader_tokens for one in report.agents)
    rows: list[list[_Cell]] = []
    for agent in report.agents:
        sums = ", ".join(money(total, one) for one, total in sorted(agent.costs.items()))
        passed = agent.success.passed if agent.success else 0
        each = cost(agent.cost.total / passed) if agent.cost and passed else ""
        tokens = [agent.input_tokens, agent.output_tokens]
        shown = ["" if count is None else number(count) for count in tokens]
        total = number(agent.tokens.total) if agent.tokens else ""
        rows.append([agent.name, sums, each, *shown, total])
        if has_graders:
            graders = ", ".join(money(sum_of, one) for one, sum_of in agent.grader_costs.items())
            rows[-1] += [
                graders,
                "" if agent.grader_tokens is None else number(agent.grader_tokens),
            ]
    head = ["Agent", "Cost", "Cost per pass", "Input tokens", "Output tokens", "All tokens"]
    head += ["Cost of graders", "Tokens of graders"] if has_graders else []
    if any(any(row[1:]) for row in rows):
        yield _table("Totals", head, rows)


def _measured(
    title: str,
    report: Report,
    value: Callable[[AgentSummary], Distribution | None],
    shown: Callable[[float], str],
) -> Iterator[str]:
    """Yield a chart for each agent, and the numbers of all as a table."""
    found = [(agent.name, one) for agent in report.agents if (one := value(agent)) is not None]
    if not found or all(one.max == 0 for _, one in found):
        return
    yield f"<h3>{title}</h3>\n"
    edges = found[0][1].edges
    is_log = len(edges) > 2 and edges[2] - edges[1] > 1.01 * (edges[1] - edges[0])
    if edges:
        yield '<div class="charts">\n'
        for agent, one in found[:_MOST_CHARTS]:
            label = (
                f"{title}, {name(agent)}: from {shown(one.min)} to {shown(one.max)}, "
                f"median {shown(one.median)}"
            )
            middle = shown(edges[len(edges) // 2])
            yield (
                f"<figure><figcaption>{_text(agent)}</figcaption>{histogram(one, label)}"
                f'<div class="ends" aria-hidden="true"><span>{shown(edges[0])}</span>'
                f"<span>{middle}</span><span>{shown(edges[-1])}</span></div></figure>\n"
            )
        scale = "logarithmic" if is_log else "linear"
        yield (
            f'</div>\n<p class="soft">The axis is {scale} and the same for all agents; '
            "the height is the share of attempts.</p>\n"
        )
        if len(found) > _MOST_CHARTS:
            yield _shown(_MOST_CHARTS, len(found), "charts; the table has all agents")
    rows: list[list[_Cell]] = [
        [
            agent,
            number(one.count),
            shown(one.total / one.count),
            *map(
                shown,
                (one.min, one.quarter, one.median, one.three_quarters, one.p95, one.max),
            ),
        ]
        for agent, one in found
    ]
    head = ["Agent", "Attempts", "Mean", "Least", "25 %", "Median", "75 %", "95 %", "Most"]
    yield _table(title, head, rows)


def _failures(report: Report) -> Iterator[str]:
    yield '<h2 id="failures">Failures</h2>\n'
    if not report.failures:
        yield "<p>No attempt failed.</p>\n"
        return
    agents = [agent.name for agent in report.agents]
    if len(agents) > _MOST_COLUMNS:
        agents = []  # a table that wide is not read
    rows: list[list[_Cell]] = [
        [one.kind, number(one.count), *(number(one.by_agent.get(agent, 0)) for agent in agents)]
        for one in report.failures
    ]
    yield _table("Failures by kind and agent", ["Kind", "All", *agents], rows)
    reasons: list[list[_Cell]] = [
        [one.kind, number(reason.count), ("text", reason.message)]
        for one in report.failures
        for reason in one.messages
    ]
    if reasons:
        yield _table("The commonest messages of each kind", ["Kind", "Count", "Message"], reasons)


def _cases(report: Report) -> Iterator[str]:
    yield '<h2 id="cases">Cases</h2>\n'
    yield "<p>Attempts that are worth reading. The command opens the recording.</p>\n"
    if report.disagreements:
        yield "<h3>Agents disagree</h3>\n"
        for cases in report.disagreements:
            yield '<div class="group">\n'
            for case in cases:
                yield from _case(case)
            yield "</div>\n"
    for title, cases in (
        ("Failed", report.failed),
        ("Slowest", report.slowest),
        ("Dearest", report.dearest),
    ):
        if cases:
            yield f"<h3>{title}</h3>\n"
            for case in cases:
                yield from _case(case)


def _case(case: Case) -> Iterator[str]:
    outcome, _, rest = case_title(case).partition(", ")
    mark = "good" if case.outcome == "passed" else "bad" if case.outcome != "no_verdict" else ""
    attempt = "" if case.attempt == 1 else f", attempt {case.attempt}"
    yield (
        f"<details><summary><b>{_text(case.task)}</b> · "
        f"<span>{_text(case.agent)}{attempt}</span> · "
        f'<span class="mark {mark}">{_text(outcome)}</span>, {_text(rest)}</summary><div>\n'
    )
    if case.reason:
        yield f"<p>{_text(case.reason, 400)}</p>\n"
    if case.answer:
        yield f"<p>Answer:</p><pre>{_block(case.answer)}</pre>\n"
    if case.diff:
        lines = groupby(case.diff.split("\n"), _element_of)
        diff = "\n".join(starmap(_diff_lines, lines))
        yield f"<p>Changes of the workspace:</p><pre>{diff}</pre>\n"
    if not (case.reason or case.answer or case.diff):
        yield "<p>The agent answered nothing and changed nothing.</p>\n"
    command = inspect_command(case)
    yield f"<p><code>{_block(command)}</code></p>" if command else "<p>There is no recording.</p>"
    yield "</div></details>\n"


def _element_of(line: str) -> str:
    """Return the element for a line of a diff."""
    if line.startswith("+") and not line.startswith("+++"):
        return "ins"
    return "del" if line.startswith("-") and not line.startswith("---") else ""


def _diff_lines(element: str, lines: Iterator[str]) -> str:
    shown = _block("\n".join(lines))
    return f"<{element}>{shown}</{element}>" if element else shown


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[_Cell]]) -> str:
    """Return a table; the first column has names, other cells numbers unless a class is given."""

    def cell(value: _Cell) -> str:
        kind, text = value if isinstance(value, tuple) else ("number", value)
        return f'<td class="{kind}">{_text(text, 400)}</td>'

    texts = [True, *(isinstance(value, tuple) for value in rows[0][1:])]
    heads = "".join(
        f'<th scope="col" class="{"" if is_text else "number"}">{_text(text)}</th>'
        for text, is_text in zip(head, texts, strict=True)
    )
    body = "".join(
        f'<tr><th scope="row">{_text(_first(row))}</th>{"".join(map(cell, row[1:]))}</tr>\n'
        for row in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead>\n"
        f"<tbody>{body}</tbody></table></div>\n"
    )


def _shown(some: int, all_of: int, what: str) -> str:
    return f'<p class="soft">{some:,} of {all_of:,} {what}.</p>\n'


def _first(row: Sequence[_Cell]) -> str:
    return row[0] if isinstance(row[0], str) else row[0][1]


def _resource(file: str) -> str:
    return files("accord_fleet.report").joinpath(file).read_text("utf-8")


def _text(text: str, length: int = 120) -> str:
    from_agent = visible(text if len(text) <= length else f"{text[: length - 1]}…")
    return escape(from_agent.replace("\n", "\\n"))


def _block(text: str) -> str:
    return escape(visible(text))
