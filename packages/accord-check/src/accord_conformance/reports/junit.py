"""A report as JUnit XML: a suite for each version and area, a case for each rule."""

from __future__ import annotations

import re
from html import escape

from accord.text.excerpt import one_line
from accord_conformance.reports.frame_lines import frame_line
from accord_conformance.reports.report import Report
from accord_conformance.reports.run_result import RunResult
from accord_conformance.rules.manifest import Requirement

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: RunResult) -> str:
    """Return the report; warnings and advice are the output of a case, not a failure."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={_quoted(result.subject)}>",
    ]
    for report in result.reports:
        lines += _suites(report)
        lines += _scenarios(report.version, result)
    if result.kit_errors:
        lines += _errors(result.kit_errors)
    for version, why in result.unsupported.items():
        lines += _unspoken(version, why, is_error=not result.supported)
    lines.append("</testsuites>")
    return "\n".join(lines)


def _errors(tracebacks: list[str]) -> list[str]:
    """Return the suite with errors in the kit."""
    lines = [
        f'  <testsuite name="kit" tests="{len(tracebacks)}" failures="0" '
        f'errors="{len(tracebacks)}" skipped="0">'
    ]
    for traceback in tracebacks:
        lines += [
            '    <testcase classname="kit" name="the kit works">',
            f'      <error message="error in the kit">{_text(traceback)}</error>',
            "    </testcase>",
        ]
    return [*lines, "  </testsuite>"]


def _unspoken(version: int, why: str, *, is_error: bool) -> list[str]:
    """Return the suite of a version that was not tested: an error if no version was tested."""
    sign = "error" if is_error else "skipped"
    return [
        f'  <testsuite name="v{version}" tests="1" failures="0" errors="{int(is_error)}" '
        f'skipped="{int(not is_error)}">',
        f'    <testcase classname="v{version}" name="version {version} is supported">',
        f"      <{sign} message={_quoted(why)}/>",
        "    </testcase>",
        "  </testsuite>",
    ]


def _scenarios(version: int | None, result: RunResult) -> list[str]:
    """Return the suite of failed scenarios, which fail the run without a rule."""
    scenarios = result.scenarios(version)
    bad = [
        (one.scenario, f"{one.reason}. {one.advice}".strip(), one.frames)
        for one in scenarios
        if one.disconnected or one.outcome == "wrong"
    ]
    bad += [("login", login.message, ()) for login in result.locked_out if login.version == version]
    if version in result.prompt_failures:
        bad.append(("model", result.prompt_failures[version], ()))
    if not bad:
        return []
    lines = [
        f'  <testsuite name="v{version}.scenarios" tests="{len(bad)}" failures="{len(bad)}" '
        f'errors="0" skipped="0">'
    ]
    for name, why, frames in bad:
        text = "\n".join(frame_line(frame) for frame in frames)
        lines += [
            f'    <testcase classname="v{version}.scenarios" name={_quoted(name)}>',
            f"      <failure message={_quoted(why)}>{_text(text)}</failure>",
            "    </testcase>",
        ]
    return [*lines, "  </testsuite>"]


def _suites(report: Report) -> list[str]:
    lines: list[str] = []
    for area in report.by_area():
        rules = [rule for rule in report.applicable_rules() if rule.area == area.area]
        name = _quoted(f"v{report.version}.{area.area} {area.title}")
        lines.append(
            f'  <testsuite name={name} tests="{len(rules)}" failures="{area.failed}" errors="0" '
            f'skipped="{area.not_exercised}">'
        )
        for rule in rules:
            lines += _case(rule, report)
        lines.append("  </testsuite>")
    return lines


def _case(rule: Requirement, report: Report) -> list[str]:
    head = f"    <testcase classname={_quoted(f'v{report.version}.{rule.area}')}"
    head += f" name={_quoted(f'{rule.id} {rule.rule}')}"
    match report.outcome(rule):
        case "passed":
            return [f"{head}/>"]
        case "not exercised":
            return [f"{head}>", '      <skipped message="not exercised"/>', "    </testcase>"]
        case outcome:
            failures = report.rules[rule.id].failures
            text = "\n\n".join(
                "\n".join(
                    [
                        f"expected {finding.expected}",
                        f"got {finding.got}",
                        *(frame_line(frame) for frame in finding.frames),
                    ]
                )
                for finding in failures
            )
            if demand := report.demand(rule):
                text = f"demanded by {demand.label}: {demand.words}\n{text}"
            message = _quoted(f"{rule.level}: {rule.rule} {rule.hint}".rstrip())
            if outcome == "failed":
                body = f"      <failure message={message}>{_text(text)}</failure>"
            else:
                body = f"      <system-out>{_text(f'{outcome}: {text}')}</system-out>"
            return [f"{head}>", body, "    </testcase>"]


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text), quote=False)


def _quoted(text: str) -> str:
    return '"' + escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", one_line(text))) + '"'
