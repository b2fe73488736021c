"""The files of a report: JSON, JUnit XML, Markdown and HTML; `report_bytes` makes each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from html import escape as escaped
from typing import Any

from accord.text.excerpt import one_line, visible
from accord_conformance.reports.report import (
    Outcome,
    Report,
    RunResult,
    ScenarioResult,
    frame_line,
    verdict,
)
from accord_conformance.rules.manifest import AUTHORITIES, Requirement, links

# A report as one self-contained HTML page.

_STYLE = """
:root { color-scheme: light dark; --text: #1b1b1f; --page: #fff; --code: #f1f1f4; --line: #8a8a95;
  --dim: #55555f; --link: #0b57a4; --bad: #b3141c; --warn: #7d4a00; --good: #0b5a22;
  --advice: #0b57a4 }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6ea; --page: #17171a; --code: #242429;
  --line: #7d7d88; --dim: #b3b3bd; --link: #8ec5ff; --bad: #ff9aa0; --warn: #f2c078;
  --good: #7fdc98; --advice: #8ec5ff } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; background: var(--page);
  color: var(--text) }
main { max-width: 60rem; margin: 0 auto; padding: 1rem }
h1, h2, h3, p, td { overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25 }
a { color: var(--link) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top }
th:first-child, td:first-child, .scenarios td { text-align: left }
.scenarios td:last-child { white-space: nowrap }
summary { cursor: pointer; padding: .5rem 0 }
section.rule { border-left: .25rem solid var(--dim); padding-left: 1rem; margin: 1.5rem 0 }
section.failed { border-color: var(--bad) } section.warned { border-color: var(--warn) }
section.advised { border-color: var(--advice) }
.failed b { color: var(--bad) } .warned b { color: var(--warn) } .passed b { color: var(--good) }
.advised b { color: var(--advice) }
p.verdict { font-weight: bold; font-size: 1.2rem } p.bad { color: var(--bad) }
p.good { color: var(--good) }
.dim { color: var(--dim) }
pre { background: var(--code); padding: .6rem; font-size: .8rem; white-space: pre-wrap;
  overflow-wrap: anywhere }
@media (max-width: 40rem) {
  main { padding: .75rem }
  section.rule { padding-left: .75rem }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  tr { display: flex; flex-wrap: wrap; gap: 0 .75rem; padding: .4rem 0;
    border-bottom: 1px solid var(--line) }
  th, td { border: 0; padding: 0 }
  td:first-child { flex-basis: 100% }
  td.none { display: none }
  td[data-name]::after { content: " " attr(data-name) }
}
"""


def html(result: RunResult) -> str:
    """Return the page; all texts of the agent are escaped."""
    title = _html_text(result.subject)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>",
        f"<h1><code>{title}</code> and the Agent Client Protocol</h1>",
    ]
    found = verdict(result)
    style = "bad" if found.status else "good"
    parts.append(f'<p class="verdict {style}">{_html_text(found.text)}</p>')
    parts += [
        f"<p>Error in the kit:</p><pre>{escaped(visible(traceback))}</pre>"
        for traceback in result.kit_errors
    ]
    for report in result.reports:
        parts += _html_version(report, result.scenarios(report.version))
    parts += [
        f"<p>Version {version} was not tested: {_html_text(why)}.</p>"
        for version, why in result.unsupported.items()
    ]
    problems = [login.message for login in result.login_problems] + result.model_problems
    parts += [f"<p>{_html_text(problem)}</p>" for problem in problems]
    parts.append("</main></body></html>")
    return "\n".join(parts)


_COLUMNS: tuple[Outcome, ...] = ("passed", "failed", "warned", "advised", "not exercised")


def _html_version(report: Report, scenarios: list[ScenarioResult]) -> list[str]:
    parts = [f"<h2>Version {report.version}</h2>"]
    for rule in report.problem_rules("failed", "warned"):
        parts += _html_rule(rule, report)
    for one in scenarios:
        if one.outcome in ("wrong", "advised") or one.disconnected:
            parts += _html_advisory(one)
    if advised := report.problem_rules("advised"):
        parts.append("<h3>Advice</h3><p>The protocol itself does not require this.</p>")
        for rule in advised:
            parts += _html_rule(rule, report)
    parts.append("<h3>Rules by area</h3><table><thead><tr><th>Area</th>")
    parts += [f"<th>{name}</th>" for name in _COLUMNS]
    parts.append("</tr></thead><tbody>")
    for area in report.by_area():
        parts.append(f"<tr><td>{area.area} <span class=dim>{_html_text(area.title)}</span></td>")
        numbers = (area.passed, area.failed, area.warned, area.advised, area.not_exercised)
        parts += [
            f'<td class="{name.replace(" ", "-")}{"" if number else " none"}" data-name="{name}">'
            f"{_html_number(number)}</td>"
            for name, number in zip(_COLUMNS, numbers, strict=True)
        ]
        parts.append("</tr>")
    parts.append("</tbody></table>")
    parts += _html_scenarios(scenarios)
    return parts


def _html_number(number: int) -> str:
    return f"<b>{number}</b>" if number else '<span class="dim">·</span>'


def _html_rule(rule: Requirement, report: Report) -> list[str]:
    outcome = report.outcome(rule)
    parts = [
        f'<section class="rule {outcome}"><h3>{rule.id} <b>{outcome}</b></h3>',
        f"<p>{_html_text(rule.level)}: {_html_text(rule.rule)}</p>",
    ]
    for finding in report.rules[rule.id].failures:
        where = f" <span class=dim>in {_html_text(finding.where)}</span>" if finding.where else ""
        parts.append(
            f"<p>Expected {_html_text(finding.expected)}; got {_html_text(finding.got)}{where}.</p>"
        )
        if finding.frames:
            frames = "\n".join(_html_text(frame_line(frame)) for frame in finding.frames)
            parts.append(f"<pre>{frames}</pre>")
    if rule.hint:
        parts.append(f"<p>How to fix it: {_html_text(rule.hint)}</p>")
    return [*parts, f"<p class=dim>{_html_authority(rule, report)}</p>", "</section>"]


def _html_authority(rule: Requirement, report: Report) -> str:
    """Return the line about what demands a rule."""
    if demand := report.demand(rule):
        return f"Demanded by {_html_link(demand.label, demand.url)}: {_html_text(demand.words)}"
    sources = ", ".join(_html_link(link.label, link.url) for link in links(rule, report.version))
    return f"Source: {AUTHORITIES[report.authority(rule)]} ({sources})"


def _html_link(label: str, url: str) -> str:
    return f'<a href="{_html_text(url)}">{_html_text(label)}</a>' if url else _html_text(label)


def _html_advisory(result: ScenarioResult) -> list[str]:
    style = "failed" if result.outcome == "wrong" or result.disconnected else "warned"
    what = "The peer disconnected" if result.disconnected else "No rule describes it"
    parts = [
        f'<section class="rule {style}">'
        f"<h3>{_html_text(result.scenario)} <b>{result.label}</b></h3>",
        f"<p>{what}: {_html_text(result.reason)}. {_html_text(result.advice)}</p>",
    ]
    if result.frames:
        frames = "\n".join(_html_text(frame_line(frame)) for frame in result.frames)
        parts.append(f"<pre>{frames}</pre>")
    return [*parts, "</section>"]


def _html_scenarios(scenarios: list[ScenarioResult]) -> list[str]:
    rows = [
        f"<tr><td>{_html_text(one.scenario)} <span class=dim>{_html_text(one.about)}</span></td>"
        f"<td>{one.label}{_html_text(f': {one.reason}' if one.reason else '')}</td>"
        f"<td>{one.seconds:.1f} s</td></tr>"
        for one in scenarios
    ]
    return [
        f"<details><summary>{len(scenarios)} scenarios</summary><table class='scenarios'>",
        *rows,
        "</table></details>",
    ]


def _html_text(text: str) -> str:
    """Return a text for a page, escaped, on one line."""
    return escaped(one_line(text))


# A report as JUnit XML: a suite for each version and area, a case for each rule.

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: RunResult) -> str:
    """Return the report; warnings and advice are the output of a case, not a failure."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={_quoted(result.subject)}>",
    ]
    for report in result.reports:
        lines += _suites(report)
        lines += _junit_scenarios(report.version, result)
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
            f'      <error message="error in the kit">{_junit_text(traceback)}</error>',
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


def _junit_scenarios(version: int | None, result: RunResult) -> list[str]:
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
            f"      <failure message={_quoted(why)}>{_junit_text(text)}</failure>",
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
                body = f"      <failure message={message}>{_junit_text(text)}</failure>"
            else:
                body = f"      <system-out>{_junit_text(f'{outcome}: {text}')}</system-out>"
            return [f"{head}>", body, "    </testcase>"]


def _junit_text(text: str) -> str:
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text), quote=False)


def _quoted(text: str) -> str:
    return '"' + escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", one_line(text))) + '"'


# A report as Markdown, for pull requests and job summaries.

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
        lines += _markdown_version(report, result)
    problems = [login.message for login in result.login_problems] + result.model_problems
    lines += [f"- {_plain(problem)}" for problem in problems]
    lines += [""] if problems else []
    for version, why in result.unsupported.items():
        lines += [f"Version {version} was not tested: {_plain(why)}.", ""]
    return "\n".join(lines)


def _markdown_version(report: Report, result: RunResult) -> list[str]:
    lines = [f"## Version {report.version}", ""]
    scenarios = result.scenarios(report.version)
    for rule in report.problem_rules("failed", "warned"):
        lines += _broken(rule, report)
    for one in scenarios:
        if one.outcome in ("wrong", "advised") or one.disconnected:
            lines += _markdown_advisory(one)
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
    return [*lines, "", _markdown_authority(rule, report), ""]


def _markdown_authority(rule: Requirement, report: Report) -> str:
    """Return the line about what demands a rule."""
    if demand := report.demand(rule):
        return f"Demanded by [{demand.label}]({demand.url}): {_plain(demand.words)}"
    sources = ", ".join(
        f"[{link.label}]({link.url})" if link.url else link.label
        for link in links(rule, report.version)
    )
    return f"Source: {AUTHORITIES[report.authority(rule)]} ({sources})"


def _markdown_advisory(result: ScenarioResult) -> list[str]:
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


# JSON for files and terminals: control characters are escaped.

_OBEYED = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def json_text(value: Any) -> str:
    """Return the indented JSON of a value."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# All formats.

FORMATS: dict[str, Callable[[RunResult], str]] = {
    "json": lambda result: json_text(result.as_json()),
    "junit": junit,
    "markdown": markdown,
    "html": html,
}


def report_bytes(name: str, result: RunResult) -> bytes:
    """Return a report as the bytes of a file; a lone surrogate is replaced."""
    return (FORMATS[name](result).rstrip("\n") + "\n").encode("utf-8", "replace")
