"""The report as tables at the terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from accord.text.excerpt import one_line
from accord.trace.numbers import counted, duration
from accord_fleet.report.summary import Report
from accord_fleet.report.texts import (
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

__all__ = ("print_report",)

_SHOWN_CASES = 5


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the tables, on stdout without a console; text of agents is never markup."""
    (console or Console()).print(Group(*_parts(report)))


def _parts(report: Report) -> list[RenderableType]:
    parts: list[RenderableType] = [
        Text(
            f"{counted(report.results, 'result')}: {counted(report.tasks, 'task')}, "
            f"{counted(len(report.agents), 'agent')}"
        )
    ]
    if report.planned is not None and report.results < report.planned:
        parts.append(Text(f"{report.planned - report.results:,} results are missing", "yellow"))
    if why := unjudged(report):
        parts.append(Text(why))
    if report.agents:
        parts += [Text(), _agents(report)]
    if any(agent.by_tag for agent in report.agents):
        parts += [Text(), _tags(report)]
    if report.comparisons:
        parts += [Text(), _comparisons(report)]
    if report.failures:
        parts += [Text(), _failures(report)]
    cases = [*(case for cases in report.disagreements for case in cases), *report.failed]
    for case in list({(one.task, one.agent, one.attempt): one for one in cases}.values())[
        :_SHOWN_CASES
    ]:
        parts.append(Text(f"\n{name(case.task)} · {name(case.agent)}: {case_title(case)}"))
        if case.reason:
            parts.append(Text(f"  {one_line(case.reason, 200)}"))
        if command := inspect_command(case):
            parts.append(Text(f"  {one_line(command, 400)}", "dim"))
    return parts


def _agents(report: Report) -> Table:
    table = _table("Agent", "Passed", "95 %", "Median", "p95", "Cost", "Tokens")
    for agent in report.agents:
        rate = agent.success
        table.add_row(
            _name(agent.name),
            "not judged" if rate is None else f"{percent(rate.rate)} ({rate.passed}/{rate.judged})",
            "" if rate is None else range_of(rate.interval),
            "" if agent.wall_s is None else duration(agent.wall_s.median),
            "" if agent.wall_s is None else duration(agent.wall_s.p95),
            ", ".join(money(total, one) for one, total in sorted(agent.costs.items())),
            "" if agent.tokens is None else number(agent.tokens.total),
        )
    return table


def _tags(report: Report) -> Table:
    table = _table("Tag", *(name(agent.name) for agent in report.agents))
    for tag in dict.fromkeys(tag for agent in report.agents for tag in agent.by_tag):
        rates = [agent.by_tag.get(tag) for agent in report.agents]
        table.add_row(
            _name(tag),
            *("" if one is None else f"{percent(one.rate)} ({one.judged})" for one in rates),
        )
    return table


def _comparisons(report: Report) -> Table:
    table = _table("First", "Second", "Won", "Lost", "Same", "Diff.", "p adj.", "Better")
    for one in report.comparisons:
        table.add_row(
            _name(one.first),
            _name(one.second),
            str(one.wins),
            str(one.losses),
            str(one.ties),
            points(one.difference),
            probability(one.p_adjusted),
            Text(clear_winner(one)),
        )
    return table


def _failures(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    kinds = [len(name(one.kind)) for one in report.failures]
    table.add_column("Failures", no_wrap=True, min_width=min(max(kinds), 28))
    table.add_column("Count", justify="right", no_wrap=True, min_width=5)
    table.add_column("Commonest message", no_wrap=True, overflow="ellipsis")
    for one in report.failures:
        message = one.messages[0].message if one.messages else ""
        table.add_row(_name(one.kind), number(one.count), Text(one_line(message, 200)))
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(Text(first), overflow="ellipsis", min_width=8)
    for other in others:
        table.add_column(Text(other), justify="right", overflow="fold")
    return table


def _name(text: str) -> Text:
    return Text(name(text))
