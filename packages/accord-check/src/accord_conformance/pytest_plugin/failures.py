"""The message of a test that failed because of rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from accord_conformance.reports.finding import Finding
from accord_conformance.reports.frame_lines import frame_line
from accord_conformance.reports.report import Report

MAX_SHOWN = 3  # findings of one rule; the others are counted


class RuleFailed(AssertionError):
    """Rules were broken; the text shows the messages."""


def describe_failures(report: Report, rules: Iterable[str]) -> str:
    """Describe the failures of these rules: expected, got, and the frames."""
    return "\n".join(line for rule in rules for line in _rule(report, rule))


def _rule(report: Report, ident: str) -> Iterator[str]:
    result = report.rules[ident]
    first, *_ = result.failures
    rule = first.requirement
    yield f"{ident} {rule.level}: {rule.rule}"
    for finding in result.failures[:MAX_SHOWN]:
        yield from _finding(finding)
    if result.failed > MAX_SHOWN:
        yield f"  … and {result.failed - MAX_SHOWN} more findings"


def _finding(finding: Finding) -> Iterator[str]:
    where = f", in {finding.where}" if finding.where else ""
    yield f"  failed by the {finding.by}{where}"
    yield f"    expected  {finding.expected}"
    yield f"    got       {finding.got}"
    for frame in finding.frames:
        yield f"    {frame_line(frame)}"
