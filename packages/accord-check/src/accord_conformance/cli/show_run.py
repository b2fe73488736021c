"""Shows a run of scenarios at the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from accord.text.excerpt import excerpt, one_line, visible
from accord_conformance.cli.show_report import show_failures, show_frames, show_report, show_verdict
from accord_conformance.reports.baseline import Known
from accord_conformance.reports.run_result import RunResult, ScenarioResult, verdict

_MAX_SHOWN = 4000  # characters about a version that was not tested; may be several lines


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
        shown = escape(visible(excerpt(why, _MAX_SHOWN)))
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
