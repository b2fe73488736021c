"""A report as Markdown, for pull requests and job summaries."""

from __future__ import annotations

import re

from accord.text.excerpt import one_line, visible
from accord_conformance.reports.frame_lines import frame_line
from accord_conformance.reports.report import Report
from accord_conformance.reports.run_result import RunResult, ScenarioResult, verdict
from accord_conformance.rules.authority import AUTHORITIES
from accord_conformance.rules.manifest import Requirement
from accord_conformance.rules.sources import links

_MAX_SHOWN = 3  # findings of one rule
_SIGN = re.compile(r"[\\`|*_~\[\]]")
_CALLS = re.compile(r"[@#:](?=[\w/])|\bwww(?=\.)")


def markdown(result: RunResult) -> str:
    """Return the report."""
    lines = [f"# {_code(result.subject)} and the Agent Client Protocol", ""]
    lines += [f"**{_plain(verdict(result).text)}**", ""]
    for traceback in result.kit_errors:
        block = visible(traceback).splitlines()
        lines += ["Error in the kit:", "", (fence := _fence(block)), *block, fence, ""]
    for report in result.reports:
        lines += _version(report, result)
    problems = [login.message for login in result.login_problems] + result.model_problems
    lines += [f"- {_plain(problem)}" for problem in problems]
    lines += [""] if problems else []
    for version, why in result.unsupported.items():
        lines += [f"Version {version} was not tested: {_plain(why)}.", ""]
    return "\n".join(lines)


def _version(report: Report, result: RunResult) -> list[str]:
    lines = [f"## Version {report.version}", ""]
    scenarios = result.scenarios(report.version)
    for rule in report.problem_rules("failed", "warned"):
        lines += _broken(rule, report)
    for one in scenarios:
        if one.outcome in ("wrong", "advised") or one.disconnected:
            lines += _advisory(one)
    if advised := report.problem_rules("advised"):
        lines += ["### Advice", "", "The protocol itself does not require this.", ""]
        for rule in advised:
            lines += _broken(rule, report, "####")
    lines += ["| Area | passed | failed | warned | advised | not exercised |"]
    lines += ["|---|--:|--:|--:|--:|--:|"]
    for area in report.by_area():
        title = f"{area.area}: {_plain(area.title)}"
        numbers = (area.passed, area.failed, area.warned, area.advised, area.not_exercised)
        lines.append(f"| {title} | {' | '.join(str(number) for number in numbers)} |")
    lines.append("")
    shown = ("finished", "wrong", "advised")
    others = [one for one in scenarios if one.outcome not in shown and not one.disconnected]
    if others:
        lines += ["<details><summary>Scenarios without a result</summary>", ""]
        lines += [f"- `{one.scenario}`: {one.outcome}: {_plain(one.reason)}" for one in others]
        lines += ["", "</details>", ""]
    return lines


def _broken(rule: Requirement, report: Report, head: str = "###") -> list[str]:
    result = report.rules[rule.id]
    lines = [f"{head} {rule.id}: {report.outcome(rule)}", "", f"**{rule.level}** {rule.rule}", ""]
    for finding in result.failures[:_MAX_SHOWN]:
        where = f" (`{finding.where}`)" if finding.where else ""
        lines.append(f"- expected {_plain(finding.expected)}; got {_plain(finding.got)}{where}")
        if finding.frames:
            block = [frame_line(frame) for frame in finding.frames]
            fence = _fence(block)
            lines += ["", *(f"  {line}" for line in (fence, *block, fence)), ""]
    if result.failed > _MAX_SHOWN:
        lines.append(f"- and {result.failed - _MAX_SHOWN} more")
    if rule.hint:
        lines += ["", f"How to fix it: {rule.hint}"]
    return [*lines, "", _authority(rule, report), ""]


def _authority(rule: Requirement, report: Report) -> str:
    """Return the line about what demands a rule."""
    if demand := report.demand(rule):
        return f"Demanded by [{demand.label}]({demand.url}): {_plain(demand.words)}"
    sources = ", ".join(
        f"[{link.label}]({link.url})" if link.url else link.label
        for link in links(rule, report.version)
    )
    return f"Source: {AUTHORITIES[report.authority(rule)]} ({sources})"


def _advisory(result: ScenarioResult) -> list[str]:
    lines = [f"### `{result.scenario}`: {result.label}", ""]
    what = "The peer disconnected" if result.disconnected else "No rule describes it"
    lines += [f"{what}: {_plain(result.reason)}. {_plain(result.advice)}".rstrip(), ""]
    if result.frames:
        block = [frame_line(frame) for frame in result.frames]
        fence = _fence(block)
        lines += [fence, *block, fence, ""]
    return lines


def _fence(lines: list[str]) -> str:
    """Return a fence that is longer than any in the block."""
    fence = "```"
    while any(fence in line for line in lines):
        fence += "`"
    return fence


def _plain(text: str) -> str:
    """Return a text escaped for Markdown and HTML, on one line."""
    safe = _SIGN.sub(r"\\\g<0>", one_line(text)).replace("&", "&amp;").replace("<", "&lt;")
    # The texts of an agent must not mention users or create links.
    safe = _CALLS.sub("\\g<0>&#8203;", safe)
    return " ".join(safe.split())


def _code(text: str) -> str:
    """Return a text as code."""
    line = " ".join(one_line(text).split())
    longest = max((len(found) for found in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest or not line else ""
    return f"{fence}{space}{line}{space}{fence}"
