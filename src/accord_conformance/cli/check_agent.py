"""`accord check agent` and `accord check init`: an agent is started, and played with."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accord_conformance.cli.report_files import check_directory, check_writable, write_atomically

if TYPE_CHECKING:
    from accord_conformance.agent.settings import Settings
    from accord_conformance.reports.run_result import RunResult

__all__ = ("agent", "init", "report_bytes", "report_text")

_FILE = "accord-check.toml"
_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command("init")
@click.argument("file", type=_PATH, default=_FILE)
def init(file: Path) -> int:
    """Write a file of settings for `accord check agent`, to be changed for your agent.

    FILE is accord-check.toml unless another is named.
    """
    from accord_conformance.agent.settings import template

    if file.exists():
        raise click.UsageError(f"{file} is there already")
    try:
        file.write_text(template(), "utf-8")
    except OSError as error:
        raise click.UsageError(f"Cannot write {file}: {error.strerror}") from None
    click.echo(f"Wrote {file}: say there how your agent is started, and what to ask it.")
    return 0


@click.command("agent")
@click.option(
    "--version",
    type=click.Choice(["1", "2", "both"]),
    default="both",
    help="Check one version alone; otherwise those that the agent speaks.",
)
@click.option("--config", type=_PATH, help=f"Settings; else {_FILE}, if it is there.")
@click.option(
    "--only",
    "--area",
    "only",
    metavar="NAME",
    multiple=True,
    help="Only this scenario or area of them, or those about a rule or an area of rules.",
)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), help="Seconds for a turn.")
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    help="Seconds for the whole run, 600 unless the settings say otherwise.",
)
@click.option("--json", "json_file", type=_PATH, help="Write the report as JSON.")
@click.option("--junit", "junit_file", type=_PATH, help="Write it as JUnit XML.")
@click.option("--markdown", "markdown_file", type=_PATH, help="Write it as Markdown.")
@click.option("--html", "html_file", type=_PATH, help="Write it as an HTML page.")
@click.option("--strict", is_flag=True, help="Fail on warnings and advice, too.")
@click.option("--baseline", type=_PATH, help="Do not fail for the rules in this file.")
@click.option("--update-baseline", is_flag=True, help="Write down what is broken now.")
@click.option(
    "--trace",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write all frames into this directory, a file for each connection.",
)
@click.argument("command", nargs=-1)
def agent(
    version: str,
    config: Path | None,
    only: tuple[str, ...],
    timeout: float | None,
    budget: float | None,
    strict: bool,
    baseline: Path | None,
    update_baseline: bool,
    trace: Path | None,
    command: tuple[str, ...],
    **files: Path | None,
) -> int:
    """Start an agent as an editor would, and check that it keeps the rules.

    COMMAND comes behind `--`, as in `accord check agent -- my-agent --acp`. What the agent is
    asked to do stands in the settings; `accord check init` writes a file of them.

    The exit status is 1 when the agent breaks a MUST of the schema or of the text of the protocol,
    2 when it cannot be started, 3 when it requires a login, so that no turn was checked, and 70
    after an error in the kit. Rules that only the reference SDKs demand, or that Accord derived,
    are advice.
    """
    settings = _settings(config, timeout, command)
    if budget is not None:
        if math.isnan(budget):
            raise click.UsageError("--budget is a number of seconds, not nan")
        settings.budget = budget
    if update_baseline and baseline is None:
        raise click.UsageError("--update-baseline needs --baseline")
    known = _baseline(baseline, may_be_new=update_baseline)
    versions = (1, 2) if version == "both" else (int(version),)
    reports = {f"--{name.removesuffix('_file')}": path for name, path in files.items()}
    check_writable(reports | ({"--baseline": baseline} if update_baseline else {}))
    if trace is not None:
        check_directory(trace, "--trace")
    faults: list[str] = []
    result = _run(settings, versions, only, trace, faults)
    result.strict, result.baseline = strict, known
    # Before it is shown: whoever reads may be gone.
    faults += _write(result, files)
    from accord_conformance.cli.show_run import show_result

    broken = set(result.failed_rules(strict=strict))
    show_result(result, known & broken, known & result.passed_rules())
    if faults:
        raise click.UsageError("; ".join(faults))
    if update_baseline and baseline is not None and result.supported and not result.kit_errors:
        from accord_conformance.reports.baseline import write_baseline

        try:
            # What was not played this time is as broken as it was.
            write_baseline(baseline, broken | (known - result.passed_rules()))
        except OSError as error:
            raise click.UsageError(f"Cannot write {baseline}: {error.strerror}") from None
        return 0
    from accord_conformance.reports.run_result import verdict

    return verdict(result).status


def _settings(config: Path | None, timeout: float | None, command: tuple[str, ...]) -> Settings:
    from accord_conformance.agent.settings import InvalidSettings, Settings, read_settings

    settings = Settings()
    try:
        if config is not None or Path(_FILE).exists():
            settings = read_settings(config or Path(_FILE))
    except InvalidSettings as wrong:
        raise click.UsageError(str(wrong)) from None
    if command:
        settings.command = list(command)
    if not settings.command:
        raise click.UsageError("Say what starts the agent: accord check agent -- COMMAND")
    if timeout is not None:
        if math.isnan(timeout):
            raise click.UsageError("--timeout is a number of seconds, not nan")
        settings.timeout = timeout
        settings.answer = min(settings.answer, timeout)
    return settings


def _baseline(baseline: Path | None, *, may_be_new: bool) -> set[tuple[str, int]]:
    if baseline is None or (may_be_new and not baseline.exists()):
        return set()
    from accord_conformance.reports.baseline import read_baseline

    try:
        return read_baseline(baseline)
    except OSError as error:
        why = f"Cannot read the baseline {baseline}: {error.strerror}"
        raise click.UsageError(f"{why}; --update-baseline writes one") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _run(
    settings: Settings,
    versions: tuple[int, ...],
    only: tuple[str, ...],
    trace: Path | None,
    faults: list[str],
) -> RunResult:
    """Play the scenarios; what cannot be written of the frames is added to `faults`."""
    from accord.errors import TransportError
    from accord.local.run import run_program as run_to_end
    from accord.transports.process import ProcessTransport, process
    from accord_conformance.agent.run import AgentRun
    from accord_conformance.agent.scenarios import agent_scenarios
    from accord_conformance.cli.progress import Progress
    from accord_conformance.harness.raw_connection import RawConnection
    from accord_conformance.harness.traces import write_trace
    from accord_conformance.rules.selection import UnknownName, select_scenarios, validate_skips

    try:
        validate_skips(settings.skip, agent_scenarios())
        chosen = select_scenarios(only, agent_scenarios())
    except UnknownName as unknown:
        raise click.UsageError(str(unknown)) from None

    def connect(noise: Callable[[str], None]) -> ProcessTransport:
        return process(*settings.command, env=settings.env, on_noise=noise)()

    def closed(name: str, line: RawConnection) -> None:
        if trace is None or faults:
            return
        try:
            write_trace(trace, name, line)
        except OSError as error:
            faults.append(f"Cannot write into {trace}: {error.strerror}")

    subject = " ".join(settings.command)
    progress = Progress(sys.stderr, budget_s=settings.budget)

    def begun(version: int, name: str) -> None:
        progress.total = run.total
        progress.on_start(version, name)

    run = AgentRun(
        connect,
        chosen,
        settings,
        subject=subject,
        budget_s=settings.budget,
        on_start=begun,
        on_result=progress.on_result,
        on_close=closed,
    )

    async def play() -> RunResult:
        async with progress:
            return await run.run(versions)

    try:
        return run_to_end(play())
    except TransportError as error:
        raise click.UsageError(f"The agent cannot be started: {error}") from None


def _write(result: RunResult, files: dict[str, Path | None]) -> list[str]:
    """Write the reports, as many as can be; return what is wrong with the others."""
    wrong: list[str] = []
    for name, path in files.items():
        if path is None:
            continue
        try:
            write_atomically(path, report_bytes(name, result))
        except OSError as error:
            wrong.append(f"Cannot write {path}: {error.strerror}")
    return wrong


def report_bytes(name: str, result: RunResult) -> bytes:
    """Return a report as it is in a file: half surrogates are no text."""
    return report_text(name, result).encode("utf-8", "replace")


def report_text(name: str, result: RunResult) -> str:
    """Return a report in the format that an option of this name writes."""
    match name:
        case "json_file":
            from accord_conformance.reports.json_text import json_text

            text = json_text(result.as_json())
        case "junit_file":
            from accord_conformance.reports.junit import junit

            text = junit(result)
        case "markdown_file":
            from accord_conformance.reports.markdown import markdown

            text = markdown(result)
        case _:
            from accord_conformance.reports.html import html

            text = html(result)
    return text.rstrip("\n") + "\n"
