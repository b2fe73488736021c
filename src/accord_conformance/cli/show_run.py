"""How a run of scenarios is shown at the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from accord.text.excerpt import excerpt, one_line, visible
from accord_conformance.cli.show_report import show_failures, show_frames, show_report, show_verdict
from accord_conformance.reports.baseline import Known
from accord_conformance.reports.run_result import Played, Result, verdict

__all__ = ("show_result",)

_MOST = 4000  # characters about a version that was not checked, which may be several lines


def show_result(result: Result, known: Known, mended: Known) -> None:
    """Show the report of each version, the scenarios without a result, and last the verdict."""
    console = Console(highlight=False, emoji=False)
    for report in result.reports:
        console.rule(f"Version {report.version}", align="left", style="dim")
        if report in result.checked:
            show_report(report)
            console.print()
            _scenarios(console, result.scenarios(report.version))
        else:
            show_failures(report)
    for version, why in result.unspoken.items():
        what = (
            f"[yellow]Version {version} was not checked:[/] {escape(visible(excerpt(why, _MOST)))}"
        )
        console.print(what, soft_wrap=True)
    for login in result.logins:
        style = "red" if login in result.shut_out else "yellow"
        console.print(f"[{style}]{escape(one_line(login.words))}[/]", soft_wrap=True)
    if left := result.left:
        names = ", ".join(sorted({one.scenario for one in left}))
        console.print(f"[red]The agent went away in the middle of {names}.[/]")
    if known:
        console.print(f"Known from the baseline: {_rules(known)}.")
    if mended:
        console.print(f"In the baseline, and not broken any more: {_rules(mended)}.")
    for traceback in result.errors:
        console.print("[bold red]Error in the kit[/], which says nothing about the agent:")
        console.print(escape(visible(traceback)), soft_wrap=True)
    console.print(f"[dim]{result.seconds:.1f} s[/]")
    found = verdict(result)
    show_verdict(found.words, found.status)


def _scenarios(console: Console, played: list[Played]) -> None:
    finished = sum(one.ending == "finished" for one in played)
    console.print(f"{finished} of {len(played)} scenarios were played to their end.")
    for one in played:
        if one.ending in ("wrong", "advised"):
            _objection(console, one)
    for one in played:
        if one.ending in ("unfinished", "error in the kit"):
            style = "bold red" if one.left or one.ending != "unfinished" else "yellow"
            what = escape(one_line(one.reason))
            console.print(f"  [{style}]{one.ending}[/] {one.scenario}: {what}", soft_wrap=True)
            show_frames(console, one.frames)
    for ending in ("skipped", "not exercised"):
        reasons: dict[str, list[str]] = {}
        for one in played:
            if one.ending == ending:
                reasons.setdefault(one_line(one.reason), []).append(one.scenario)
        for reason, names in reasons.items():
            line = f"  [dim]{ending}[/] {', '.join(names)}: {escape(reason)}"
            console.print(line, soft_wrap=True)
    console.print()


def _objection(console: Console, one: Played) -> None:
    style = "bold red" if one.ending == "wrong" else "yellow"
    what = escape(one_line(one.reason))
    console.print(f"  [{style}]{one.ending}[/] {one.scenario}: {what}", soft_wrap=True)
    console.print(f"    {escape(one.advice)}", soft_wrap=True)
    show_frames(console, one.frames)


def _rules(rules: Known) -> str:
    return ", ".join(f"{rule} (v{version})" for rule, version in sorted(rules))
