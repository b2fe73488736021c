"""How the conformance kit's rules and reports are shown at the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from accord.conformance.finding import Finding
from accord.conformance.frame import Frame
from accord.conformance.manifest import Requirement, requirements
from accord.conformance.report import Report
from accord.conformance.reports.shorten import frame_line
from accord.excerpt import one_line

__all__ = ("show_failures", "show_frames", "show_report", "show_rules")

MOST_SHOWN = 3  # findings of one rule; the rest are counted
_FRAME_CHARACTERS = 400


def show_rules(rules: Iterable[Requirement]) -> None:
    """List rules: who must do what, and who judges it."""
    console = Console(highlight=False, emoji=False)
    for rule in rules:
        mark = "" if rule.stability == "stable" else f" {rule.stability}"
        versions = " and ".join(f"v{version}" for version in rule.versions)
        how = f"{rule.how}: {rule.reason}" if rule.reason else rule.how
        head = f"[bold]{rule.id}[/] {rule.level}, {rule.who}, {versions}{mark} [dim]{how}[/]"
        console.print(head, soft_wrap=True)
        console.print(Padding(escape(rule.rule), (0, 0, 0, 4)))


def show_report(report: Report) -> None:
    """Show the sums of the areas, and each broken rule with the frames that show it."""
    show_failures(report)
    console = Console(highlight=False, emoji=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Area")
    for title in ("passed", "failed", "warned", "not exercised"):
        table.add_column(title, justify="right")
    for area in report.by_area():
        numbers = (area.passed, area.failed, area.warned, area.not_exercised)
        styles = ("green", "bold red", "yellow", "dim")
        cells = [
            f"[{style}]{number}[/]" if number else "[dim]·[/]"
            for number, style in zip(numbers, styles, strict=True)
        ]
        table.add_row(f"{area.area} [dim]{escape(area.title)}[/]", *cells)
    console.print(table)
    must, should = report.broken(), report.broken(strict=True)
    version = f"version {report.version}" if report.version else "no version agreed"
    console.print(
        f"\n{report.frames} frames, {version}: {_count(len(must), 'rule')} broken, "
        f"{_count(len(should) - len(must), 'warning')}."
    )


def show_failures(report: Report) -> None:
    """Show each broken rule with the frames that show it."""
    console = Console(highlight=False, emoji=False)
    for name, rule in requirements().items():
        result = report.rules.get(name)
        if result is None or not result.failures:
            continue
        style = "bold red" if rule.is_must else "yellow"
        console.print(
            f"[{style}]{name}[/] [bold]{rule.level}[/] {escape(rule.rule)}", soft_wrap=True
        )
        for finding in result.failures[:MOST_SHOWN]:
            _finding(console, finding)
        if result.broken > MOST_SHOWN:
            console.print(f"  … and {_count(result.broken - MOST_SHOWN, 'more time')}")
        console.print()


def _finding(console: Console, finding: Finding) -> None:
    console.print(f"  broken by the {finding.by}")
    console.print(f"    expected  {_safe(finding.expected)}", soft_wrap=True)
    console.print(f"    got       {_safe(finding.got)}", soft_wrap=True)
    show_frames(console, finding.frames)


def show_frames(console: Console, frames: Iterable[Frame]) -> None:
    """Show frames, a line each."""
    for frame in frames:
        console.print(f"    [dim]{escape(frame_line(frame, _FRAME_CHARACTERS))}[/]", soft_wrap=True)


def _safe(text: str) -> str:
    return escape(one_line(text))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
