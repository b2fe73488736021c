"""A report as one self-contained HTML page."""

from __future__ import annotations

from html import escape as escaped

from accord.text.excerpt import one_line, visible
from accord_conformance.reports.frame_lines import frame_line
from accord_conformance.reports.report import Outcome, Report
from accord_conformance.reports.run_result import RunResult, ScenarioResult, verdict
from accord_conformance.rules.authority import AUTHORITIES
from accord_conformance.rules.manifest import Requirement
from accord_conformance.rules.sources import links

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
    title = _text(result.subject)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>",
        f"<h1><code>{title}</code> and the Agent Client Protocol</h1>",
    ]
    found = verdict(result)
    style = "bad" if found.status else "good"
    parts.append(f'<p class="verdict {style}">{_text(found.text)}</p>')
    parts += [
        f"<p>Error in the kit:</p><pre>{escaped(visible(traceback))}</pre>"
        for traceback in result.kit_errors
    ]
    for report in result.reports:
        parts += _version(report, result.scenarios(report.version))
    parts += [
        f"<p>Version {version} was not tested: {_text(why)}.</p>"
        for version, why in result.unsupported.items()
    ]
    problems = [login.message for login in result.login_problems] + result.model_problems
    parts += [f"<p>{_text(problem)}</p>" for problem in problems]
    parts.append("</main></body></html>")
    return "\n".join(parts)


_COLUMNS: tuple[Outcome, ...] = ("passed", "failed", "warned", "advised", "not exercised")


def _version(report: Report, scenarios: list[ScenarioResult]) -> list[str]:
    parts = [f"<h2>Version {report.version}</h2>"]
    for rule in report.problem_rules("failed", "warned"):
        parts += _rule(rule, report)
    for one in scenarios:
        if one.outcome in ("wrong", "advised") or one.disconnected:
            parts += _advisory(one)
    if advised := report.problem_rules("advised"):
        parts.append("<h3>Advice</h3><p>The protocol itself does not require this.</p>")
        for rule in advised:
            parts += _rule(rule, report)
    parts.append("<h3>Rules by area</h3><table><thead><tr><th>Area</th>")
    parts += [f"<th>{name}</th>" for name in _COLUMNS]
    parts.append("</tr></thead><tbody>")
    for area in report.by_area():
        parts.append(f"<tr><td>{area.area} <span class=dim>{_text(area.title)}</span></td>")
        numbers = (area.passed, area.failed, area.warned, area.advised, area.not_exercised)
        parts += [
            f'<td class="{name.replace(" ", "-")}{"" if number else " none"}" data-name="{name}">'
            f"{_number(number)}</td>"
            for name, number in zip(_COLUMNS, numbers, strict=True)
        ]
        parts.append("</tr>")
    parts.append("</tbody></table>")
    parts += _scenarios(scenarios)
    return parts


def _number(number: int) -> str:
    return f"<b>{number}</b>" if number else '<span class="dim">·</span>'


def _rule(rule: Requirement, report: Report) -> list[str]:
    outcome = report.outcome(rule)
    parts = [
        f'<section class="rule {outcome}"><h3>{rule.id} <b>{outcome}</b></h3>',
        f"<p>{_text(rule.level)}: {_text(rule.rule)}</p>",
    ]
    for finding in report.rules[rule.id].failures:
        where = f" <span class=dim>in {_text(finding.where)}</span>" if finding.where else ""
        parts.append(f"<p>Expected {_text(finding.expected)}; got {_text(finding.got)}{where}.</p>")
        if finding.frames:
            frames = "\n".join(_text(frame_line(frame)) for frame in finding.frames)
            parts.append(f"<pre>{frames}</pre>")
    if rule.hint:
        parts.append(f"<p>How to fix it: {_text(rule.hint)}</p>")
    return [*parts, f"<p class=dim>{_authority(rule, report)}</p>", "</section>"]


def _authority(rule: Requirement, report: Report) -> str:
    """Return the line about what demands a rule."""
    if demand := report.demand(rule):
        return f"Demanded by {_link(demand.label, demand.url)}: {_text(demand.words)}"
    sources = ", ".join(_link(link.label, link.url) for link in links(rule, report.version))
    return f"Source: {AUTHORITIES[report.authority(rule)]} ({sources})"


def _link(label: str, url: str) -> str:
    return f'<a href="{_text(url)}">{_text(label)}</a>' if url else _text(label)


def _advisory(result: ScenarioResult) -> list[str]:
    style = "failed" if result.outcome == "wrong" or result.disconnected else "warned"
    what = "The peer disconnected" if result.disconnected else "No rule describes it"
    parts = [
        f'<section class="rule {style}"><h3>{_text(result.scenario)} <b>{result.label}</b></h3>',
        f"<p>{what}: {_text(result.reason)}. {_text(result.advice)}</p>",
    ]
    if result.frames:
        frames = "\n".join(_text(frame_line(frame)) for frame in result.frames)
        parts.append(f"<pre>{frames}</pre>")
    return [*parts, "</section>"]


def _scenarios(scenarios: list[ScenarioResult]) -> list[str]:
    rows = [
        f"<tr><td>{_text(one.scenario)} <span class=dim>{_text(one.about)}</span></td>"
        f"<td>{one.label}{_text(f': {one.reason}' if one.reason else '')}</td>"
        f"<td>{one.seconds:.1f} s</td></tr>"
        for one in scenarios
    ]
    return [
        f"<details><summary>{len(scenarios)} scenarios</summary><table class='scenarios'>",
        *rows,
        "</table></details>",
    ]


def _text(text: str) -> str:
    """Return a text for a page, escaped, on one line."""
    return escaped(one_line(text))
