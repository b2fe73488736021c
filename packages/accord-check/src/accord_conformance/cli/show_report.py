"""Shows rules, reports and runs at the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from accord.text.excerpt import excerpt, one_line, visible
from accord_conformance.reports.report import (
    Finding,
    Known,
    Outcome,
    Report,
    RunResult,
    ScenarioResult,
    frame_line,
    plural,
    verdict,
)
from accord_conformance.rules.manifest import AUTHORITIES, Requirement, links
from accord_conformance.traffic.message import Frame

MAX_SHOWN = 3  # findings of one rule; the others are counted
_FRAME_CHARACTERS = 400


def show_rules(rules: Iterable[Requirement]) -> None:
    """List rules: who has to do what, and how it is judged."""
    console = Console(highlight=False, emoji=False)
    for rule in rules:
        mark = "" if rule.stability == "stable" else f" {rule.stability}"
        versions = " and ".join(f"v{version}" for version in rule.versions)
        how = f"{rule.how}: {rule.reason}" if rule.reason else rule.how
        of = " or ".join(dict.fromkeys(AUTHORITIES[one] for one in rule.authority.values()))
        head = f"[bold]{rule.id}[/] {rule.level}, {rule.who}, {versions}{mark} [dim]{of}; {how}[/]"
        console.print(head, soft_wrap=True)
        console.print(Padding(escape(rule.rule), (0, 0, 0, 4)))
        for place in dict.fromkeys(
            f"{one.label}: {one.words}" for one in rule.demand.values() if one.place
        ):
            console.print(Padding(f"[dim]{escape(place)}[/]", (0, 0, 0, 4)))


def show_report(report: Report) -> None:
    """Show the failed rules with their frames, and the totals of the areas."""
    show_failures(report)
    console = Console(highlight=False, emoji=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Area")
    titles = ("passed", "failed", "warned", "advised", "not exercised")
    for title in titles:
        table.add_column(title, justify="right")
    quiet: list[str] = []
    for area in report.by_area():
        numbers = (area.passed, area.failed, area.warned, area.advised, area.not_exercised)
        if not any(numbers[:-1]):
            quiet.append(f"{area.area} ({area.not_exercised})")
            continue
        styles = ("green", "bold red", "yellow", "cyan", "dim")
        cells = [
            f"[{style}]{number}[/]" if number else "[dim]·[/]"
            for number, style in zip(numbers, styles, strict=True)
        ]
        table.add_row(f"{area.area} [dim]{escape(area.title)}[/]", *cells)
    console.print(table)
    if quiet:
        console.print(f"[dim]Not exercised at all: {', '.join(quiet)}.[/]")
    failed, warned, advised = (
        len(report.problem_rules(one)) for one in ("failed", "warned", "advised")
    )
    version = f"version {report.version}" if report.version else "no version agreed"
    console.print(
        f"\n{report.frames} frames, {version}: {plural(failed, 'rule')} failed, "
        f"{plural(warned, 'warning')}, {advised} advised."
    )


_STYLES: dict[Outcome, str] = {"failed": "bold red", "warned": "yellow", "advised": "cyan"}


def show_failures(report: Report) -> None:
    """Show the failed rules with their frames: first those that decide, last advice."""
    console = Console(highlight=False, emoji=False)
    for outcome, style in _STYLES.items():
        rules = report.problem_rules(outcome)
        if outcome == "advised" and rules:
            console.print(f"[{style}]Advice[/]: the protocol itself does not require this.\n")
        for rule in rules:
            _rule(console, rule, report, style)


def _rule(console: Console, rule: Requirement, report: Report, style: str) -> None:
    result = report.rules[rule.id]
    head = f"[{style}]{rule.id}[/] [bold]{rule.level}[/] {escape(rule.rule)}"
    console.print(head, soft_wrap=True)
    for finding in result.failures[:MAX_SHOWN]:
        _finding(console, finding)
    if result.failed > MAX_SHOWN:
        console.print(f"  … and {plural(result.failed - MAX_SHOWN, 'more finding')}")
    if rule.hint:
        console.print(f"  [bold]fix[/]     {escape(rule.hint)}", soft_wrap=True)
    if demand := report.demand(rule):
        console.print(f"  [dim]demand  {demand.label}: {escape(demand.words)}[/]", soft_wrap=True)
        console.print(f"          [dim]{demand.url}[/]", soft_wrap=True)
    else:
        sources = ", ".join(link.url or link.label for link in links(rule, report.version))
        authority = AUTHORITIES[report.authority(rule)]
        console.print(f"  [dim]source  {authority}: {escape(sources)}[/]", soft_wrap=True)
    console.print()


def show_verdict(words: str, status: int) -> None:
    """Show the verdict, which is the last line."""
    style = {0: "bold green", 3: "bold yellow"}.get(status, "bold red")
    console = Console(highlight=False, emoji=False)
    console.print(f"[{style}]{escape(one_line(words))}[/]", soft_wrap=True)


def _finding(console: Console, finding: Finding) -> None:
    where = f", in {finding.where}" if finding.where else ""
    console.print(f"  failed by the {finding.by}{escape(where)}")
    console.print(f"    expected  {_safe(finding.expected)}", soft_wrap=True)
    console.print(f"    got       {_safe(finding.got)}", soft_wrap=True)
    show_frames(console, finding.frames)


def show_frames(console: Console, frames: Iterable[Frame]) -> None:
    """Show frames, one per line."""
    for frame in frames:
        console.print(f"    [dim]{escape(frame_line(frame, _FRAME_CHARACTERS))}[/]", soft_wrap=True)


def _safe(text: str) -> str:
    return escape(one_line(text))


# Shows a run of scenarios at the terminal.

_WHY_CHARACTERS = 4000  # characters about a version that was not tested; may be several lines


def show_result(result: RunResult, known: Known, mended: Known) -> None:
    """Show the report of each version, the scenarios without a result, and the verdict."""
    console = Console(highlight=False, emoji=False)
    side = next((report.side for report in result.reports if report.side), "agent")
    for report in result.reports:
        console.rule(f"Version {report.version}", align="left", style="dim")
        if report in result.supported:
            show_report(report)
            console.print()
            _scenarios(console, result.scenarios(report.version))
        else:
            show_failures(report)
    for version, why in result.unsupported.items():
        shown = escape(visible(excerpt(why, _WHY_CHARACTERS)))
        what = f"[yellow]Version {version} was not tested:[/] {shown}"
        console.print(what, soft_wrap=True)
    for login in result.login_problems:
        style = "red" if login in result.locked_out else "yellow"
        console.print(f"[{style}]{escape(one_line(login.message))}[/]", soft_wrap=True)
    for problem in result.model_problems:
        console.print(f"[red]{escape(one_line(problem))}[/]", soft_wrap=True)
    if left := result.disconnects:
        names = ", ".join(sorted({one.scenario for one in left}))
        console.print(f"[red]The {side} disconnected in {names}.[/]")
    if known:
        console.print(f"Known from the baseline: {_rules(known)}.")
    if mended:
        console.print(f"In the baseline, but no longer failing: {_rules(mended)}.")
    for traceback in result.kit_errors:
        console.print(f"[bold red]Error in the kit[/], which is not the {side}'s fault:")
        console.print(escape(visible(traceback)), soft_wrap=True)
    console.print(f"[dim]{result.seconds:.1f} s[/]")
    found = verdict(result)
    show_verdict(found.text, found.status)


def _scenarios(console: Console, scenarios: list[ScenarioResult]) -> None:
    finished = sum(one.outcome == "finished" for one in scenarios)
    console.print(f"{finished} of {len(scenarios)} scenarios were completed.")
    for one in scenarios:
        if one.outcome in ("wrong", "advised"):
            _advisory(console, one)
    for one in scenarios:
        if one.outcome in ("unfinished", "error in the kit"):
            style = "bold red" if one.disconnected or one.outcome != "unfinished" else "yellow"
            what = escape(one_line(one.reason))
            console.print(f"  [{style}]{one.outcome}[/] {one.scenario}: {what}", soft_wrap=True)
            show_frames(console, one.frames)
    for ending in ("skipped", "not exercised"):
        reasons: dict[str, list[str]] = {}
        for one in scenarios:
            if one.outcome == ending:
                reasons.setdefault(one_line(one.reason), []).append(one.scenario)
        for reason, names in reasons.items():
            line = f"  [dim]{ending}[/] {', '.join(names)}: {escape(reason)}"
            console.print(line, soft_wrap=True)
    console.print()


def _advisory(console: Console, one: ScenarioResult) -> None:
    style = "bold red" if one.outcome == "wrong" else "yellow"
    what = escape(one_line(one.reason))
    console.print(f"  [{style}]{one.label}[/] {one.scenario}: {what}", soft_wrap=True)
    console.print(f"    {escape(one.advice)}", soft_wrap=True)
    show_frames(console, one.frames)


def _rules(rules: Known) -> str:
    return ", ".join(f"{rule} (v{version})" for rule, version in sorted(rules))
