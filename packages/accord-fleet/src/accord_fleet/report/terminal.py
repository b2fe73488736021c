"""The report as tables at the terminal, shortened to what a person reads there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from accord.text.excerpt import one_line
from accord_fleet.report.summary import (
    AgentSummary,
    Case,
    Comparison,
    Report,
    SuccessRate,
    case_title,
    clear_winner,
    inspect_command,
    money,
    name,
    number,
    percent,
    points,
    probability,
    short_number,
    short_range,
    unjudged,
)
from accord_terminal.toolkit.text import table_lines
from accord_trace.summary import counted, duration

_SHOWN_AGENTS = 30
_SHOWN_TAGS = 20
_SHOWN_PAIRS = 15
_SHOWN_CASES = 5
_AGENTS_AS_COLUMNS = 4
_NARROW = 72  # columns: tables of numbers need more
_NAME = 40


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the tables, on stdout without a console; text of agents is never markup."""
    console = console or Console()
    for line in _lines(report, console.width):
        # The terminal folds long lines, so that a command that is copied stays whole.
        console.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)


def _lines(report: Report, width: int) -> Iterator[str | Text]:
    yield _counts(report)
    if report.planned is not None and 0 < report.results < report.planned:
        left = report.planned - report.results
        yield Text(f"{counted(left, 'result')} {'is' if left == 1 else 'are'} missing", "yellow")
    if why := unjudged(report):
        yield why
    sections = (
        _agents(report.agents, width),
        _graders(report),
        _tags(report, width),
        _comparisons(report.comparisons, width),
        _failures(report, width),
    )
    for section in sections:
        for number_of, line in enumerate(section):
            if not number_of:
                yield ""
            yield line
    cases = [*(case for cases in report.disagreements for case in cases), *report.failed]
    unique = {(one.task, one.agent, one.attempt): one for one in cases}
    for case in list(unique.values())[:_SHOWN_CASES]:
        yield from _case(case)


def _counts(report: Report) -> str:
    if not report.results and report.planned is not None:
        return f"0 of {counted(report.planned, 'result')}"
    return (
        f"{counted(report.results, 'result')}: {counted(report.tasks, 'task')}, "
        f"{counted(len(report.agents), 'agent')}"
    )


def _agents(agents: Sequence[AgentSummary], width: int) -> Iterator[str | Text]:
    shown = agents[:_SHOWN_AGENTS]
    if width < _NARROW:
        for agent in shown:
            rate = agent.success
            interval = "" if rate is None else f", 95 %: {short_range(rate.interval)}"
            yield f"{_name(agent.name)}: {_rate(rate)}{interval}"
            if details := _details(agent):
                yield f"  {details}"
    elif shown:
        yield from _agent_table(shown, width)
    yield from _more(len(agents), _SHOWN_AGENTS, "agent")


def _graders(report: Report) -> Iterator[str]:
    """Yield what agents that graded have used, which is not in the table of the agents."""
    costs: dict[str, float] = {}
    for agent in report.agents:
        for currency, cost in agent.grader_costs.items():
            costs[currency] = costs.get(currency, 0.0) + cost
    tokens = sum(agent.grader_tokens or 0 for agent in report.agents)
    parts = [money(cost, currency) for currency, cost in sorted(costs.items())]
    parts += [f"{number(tokens)} tokens"] if tokens else []
    if parts:
        yield f"Graders, in addition: {', '.join(parts)}"


def _agent_table(agents: Sequence[AgentSummary], width: int) -> Iterator[str]:
    head = ["Agent", "Passed", "95 %", "Median", "p95", "Cost", "Tokens"]
    rows = [
        [
            _name(agent.name),
            _rate(agent.success),
            "" if agent.success is None else short_range(agent.success.interval),
            "" if agent.wall_s is None else duration(agent.wall_s.median),
            "" if agent.wall_s is None else duration(agent.wall_s.p95),
            _costs(agent),
            "" if agent.tokens is None else short_number(agent.tokens.total),
        ]
        for agent in agents
    ]
    # What no agent has is left out.
    used = [at for at in range(len(head)) if any(row[at] for row in rows)]
    yield from table_lines(
        [head[at] for at in used], [[row[at] for at in used] for row in rows], width
    )


def _details(agent: AgentSummary) -> str:
    parts: list[str] = []
    if agent.wall_s is not None:
        parts.append(f"median {duration(agent.wall_s.median)}, p95 {duration(agent.wall_s.p95)}")
    if agent.costs:
        parts.append(_costs(agent))
    if agent.tokens is not None:
        parts.append(f"{short_number(agent.tokens.total)} tokens")
    return ", ".join(parts)


def _tags(report: Report, width: int) -> Iterator[str | Text]:
    agents = [agent for agent in report.agents if agent.by_tag]
    tags = list(dict.fromkeys(tag for agent in agents for tag in agent.by_tag))
    if not tags:
        return
    if len(agents) <= min(_AGENTS_AS_COLUMNS, (width - 16) // 16):
        head = ["Tag", *(one_line(agent.name, _NAME // 2) for agent in agents)]
        rows = [
            [_name(tag), *(_rate(agent.by_tag.get(tag), "") for agent in agents)]
            for tag in tags[:_SHOWN_TAGS]
        ]
        yield from table_lines(head, rows, width)
        yield from _more(report.tags, _SHOWN_TAGS, "tag")
        return
    pairs = [(tag, agent) for tag in tags for agent in agents if tag in agent.by_tag]
    rows = [
        [_name(tag), _name(agent.name), _rate(agent.by_tag[tag])]
        for tag, agent in pairs[:_SHOWN_TAGS]
    ]
    yield from table_lines(["Tag", "Agent", "Passed"], rows, width, names=(0, 1))
    yield from _more(len(pairs), _SHOWN_TAGS, "row")


def _comparisons(pairs: Sequence[Comparison], width: int) -> Iterator[str | Text]:
    shown = pairs[:_SHOWN_PAIRS]
    if width < _NARROW:
        for one in shown:
            yield (
                f"{_name(one.first)} and {_name(one.second)}: {number(one.wins)} won, "
                f"{number(one.losses)} lost, {number(one.ties)} same; better: {clear_winner(one)}"
            )
    elif shown:
        head = ["First", "Second", "Won", "Lost", "Same", "Diff.", "p adj.", "Better"]
        rows = [
            [
                _name(one.first),
                _name(one.second),
                number(one.wins),
                number(one.losses),
                number(one.ties),
                points(one.difference),
                probability(one.p_adjusted),
                clear_winner(one),
            ]
            for one in shown
        ]
        yield from table_lines(head, rows, width, names=(0, 1, 7))
    yield from _more(len(pairs), _SHOWN_PAIRS, "pair")


def _failures(report: Report, width: int) -> Iterator[str]:
    if not report.failures:
        return
    rows = [
        [
            number(one.count),
            name(one.kind),
            one_line(one.messages[0].message, 200) if one.messages else "",
        ]
        for one in report.failures
    ]
    yield from table_lines(["Count", "Failures", "Commonest message"], rows, width, names=(1, 2))


def _case(case: Case) -> Iterator[str | Text]:
    outcome, _, details = case_title(case).partition(", ")
    yield f"\n{_name(case.task)} · {_name(case.agent)}: {outcome}"
    yield f"  {details}"
    if case.reason:
        yield f"  {one_line(case.reason, 200)}"
    if command := inspect_command(case):
        yield Text(f"  {one_line(command)}", "dim")


def _more(all_of: int, shown: int, what: str) -> Iterator[Text]:
    if all_of > shown:
        more = counted(all_of - shown, f"more {what}")
        yield Text(f"… {more}: see --html FILE or --json", "dim")


def _costs(agent: AgentSummary) -> str:
    return ", ".join(money(total, one) for one, total in sorted(agent.costs.items()))


def _rate(rate: SuccessRate | None, without: str = "not judged") -> str:
    return without if rate is None else f"{percent(rate.rate)} of {number(rate.judged)}"


def _name(text: str) -> str:
    return one_line(text, _NAME)
