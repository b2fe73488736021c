"""`accord check agent`: starts an agent and tests it with scenarios."""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import click

from accord.cli.remote_token import read_token, token_file_option
from accord.errors import TransportError
from accord.local.run import run_program
from accord.transports.base import Transport
from accord.transports.process import process
from accord.transports.registry import RemoteOptions, is_url, transport_for_url
from accord_conformance.agent.context import AgentContext
from accord_conformance.agent.remote_agent import RemoteAgent
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios, remote_scenarios
from accord_conformance.agent.settings import (
    SETTINGS_FILE,
    InvalidSettings,
    Settings,
    read_settings,
)
from accord_conformance.cli.progress import Progress
from accord_conformance.cli.report_files import check_directory, check_writable, write_atomically
from accord_conformance.cli.show_run import show_result
from accord_conformance.harness.raw_connection import RawConnection
from accord_conformance.harness.scenario import Scenario
from accord_conformance.harness.traces import write_trace
from accord_conformance.reports.baseline import read_baseline, write_baseline
from accord_conformance.reports.formats import report_bytes
from accord_conformance.reports.run_result import RunResult, verdict
from accord_conformance.rules.selection import UnknownName, select_scenarios, validate_skips

__all__ = ("command",)

_PATH = click.Path(dir_okay=False, path_type=Path)
_DIRECTORY = click.Path(file_okay=False, path_type=Path)
_SECONDS = click.FloatRange(0, min_open=True)


@click.command("agent", options_metavar="[OPTIONS]")
@click.option(
    "--version",
    type=click.Choice(["1", "2", "both"]),
    default="both",
    show_default=True,
    help="Protocol versions to test.",
)
@click.option(
    "--config",
    type=_PATH,
    metavar="FILE",
    help=f"Settings file [default: {SETTINGS_FILE}, if present].",
)
@click.option(
    "--only",
    "--area",
    "only",
    metavar="NAME",
    multiple=True,
    help="Only run this scenario, area or rule. Repeatable.",
)
@click.option("--timeout", type=_SECONDS, metavar="SECONDS", help="Time limit of a turn.")
@click.option(
    "--budget",
    type=_SECONDS,
    metavar="SECONDS",
    help="Time limit of the whole run [default: 600, or that of the settings].",
)
@click.option("--json", "json_file", type=_PATH, metavar="FILE", help="Write the report as JSON.")
@click.option(
    "--junit", "junit_file", type=_PATH, metavar="FILE", help="Write the report as JUnit XML."
)
@click.option(
    "--markdown", "markdown_file", type=_PATH, metavar="FILE", help="Write the report as Markdown."
)
@click.option("--html", "html_file", type=_PATH, metavar="FILE", help="Write the report as HTML.")
@click.option(
    "--trace",
    type=_DIRECTORY,
    metavar="DIRECTORY",
    help="Write the frames of each connection to a file.",
)
@click.option("--strict", is_flag=True, help="Fail on SHOULD rules too.")
@click.option("--baseline", type=_PATH, metavar="FILE", help="Ignore failures listed in this file.")
@click.option(
    "--update-baseline", is_flag=True, help="Rewrite the baseline with the current failures."
)
@token_file_option
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Certificates to trust instead of the system's.",
)
@click.option("--insecure", is_flag=True, help="Send the token unencrypted to another machine.")
@click.argument("arguments", metavar="[URL | -- COMMAND...]", nargs=-1)
def command(
    version: str,
    config: Path | None,
    only: tuple[str, ...],
    timeout: float | None,
    budget: float | None,
    strict: bool,
    baseline: Path | None,
    update_baseline: bool,
    trace: Path | None,
    token_file: Path | None,
    ca_file: Path | None,
    insecure: bool,
    arguments: tuple[str, ...],
    **files: Path | None,
) -> int:
    """Start an agent as an editor would, and test it.

    COMMAND starts the agent; it can also be given in the settings file, with prompts and time
    limits. Create that file with `accord check init`. URL is the address of an agent on the
    network: ws:// and wss:// for WebSocket, http:// and https:// for streamable HTTP.

    Exit status: 0 passed, 1 a MUST rule or a scenario failed, 2 usage error or the agent does not
    start, 3 login required, so no turn was tested, 70 error in the kit.
    """
    remote = None
    if len(arguments) == 1 and is_url(arguments[0]):
        options = RemoteOptions(token=read_token(token_file), insecure=insecure, ca_file=ca_file)
        remote = _remote(arguments[0], options)
    settings = _settings(config, timeout, arguments)
    if budget is not None:
        if math.isnan(budget):
            raise click.UsageError("--budget must be a number of seconds, not nan")
        settings.budget = budget
    if update_baseline and baseline is None:
        raise click.UsageError("--update-baseline needs --baseline")
    known = _baseline(baseline, may_be_new=update_baseline)
    versions = (1, 2) if version == "both" else (int(version),)
    formats = {name.removesuffix("_file"): path for name, path in files.items()}
    reports = {f"--{name}": path for name, path in formats.items()}
    check_writable(reports | ({"--baseline": baseline} if update_baseline else {}))
    if trace is not None:
        check_directory(trace, "--trace")
    faults: list[str] = []
    result = _run(settings, remote, versions, only, trace, faults)
    result.strict, result.baseline = strict, known
    # Before showing the result: the reader of stdout may be gone.
    faults += _write(result, formats)
    broken = set(result.failed_rules(strict=strict))
    show_result(result, known & broken, known & result.passed_rules())
    if faults:
        raise click.UsageError("; ".join(faults))
    if update_baseline and baseline is not None and result.supported and not result.kit_errors:
        try:
            # Rules that were not exercised this time stay in the baseline.
            write_baseline(baseline, broken | (known - result.passed_rules()))
        except OSError as error:
            raise click.UsageError(f"Cannot write {baseline}: {error.strerror}") from None
        return 0
    return verdict(result).status


def _settings(config: Path | None, timeout: float | None, command: tuple[str, ...]) -> Settings:
    settings = Settings()
    try:
        if config is not None or SETTINGS_FILE.exists():
            settings = read_settings(config or SETTINGS_FILE)
    except InvalidSettings as wrong:
        raise click.UsageError(str(wrong)) from None
    if command:
        settings.command = list(command)
    if not settings.command:
        raise click.UsageError("Missing the agent's command: accord check agent -- COMMAND")
    if timeout is not None:
        if math.isnan(timeout):
            raise click.UsageError("--timeout must be a number of seconds, not nan")
        settings.timeout = timeout
        settings.answer = min(settings.answer, timeout)
    return settings


def _remote(url: str, options: RemoteOptions) -> RemoteAgent:
    try:
        transport_for_url(url, options)
    except (ValueError, ModuleNotFoundError) as error:
        raise click.UsageError(str(error)) from None
    return RemoteAgent(url, options)


def _baseline(baseline: Path | None, *, may_be_new: bool) -> set[tuple[str, int]]:
    if baseline is None or (may_be_new and not baseline.exists()):
        return set()
    try:
        return read_baseline(baseline)
    except OSError as error:
        why = f"Cannot read the baseline {baseline}: {error.strerror}"
        raise click.UsageError(f"{why}; --update-baseline creates one") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _run(
    settings: Settings,
    remote: RemoteAgent | None,
    versions: tuple[int, ...],
    only: tuple[str, ...],
    trace: Path | None,
    faults: list[str],
) -> RunResult:
    """Run the scenarios; add errors in writing traces to `faults`."""
    scenarios = agent_scenarios() if remote is None else remote_scenarios(remote.medium)
    try:
        if settings.skip:
            validate_skips(settings.skip, _every_scenario())
        chosen = select_scenarios(only, scenarios)
    except UnknownName as unknown:
        raise click.UsageError(str(unknown)) from None

    def connect(noise: Callable[[str], None]) -> Transport | Awaitable[Transport]:
        if remote is not None:
            return remote.connect()
        return process(*settings.command, env=settings.env, on_stdout_noise=noise)()

    def closed(name: str, connection: RawConnection) -> None:
        if trace is None or faults:
            return
        try:
            write_trace(trace, name, connection)
        except OSError as error:
            faults.append(f"Cannot write into {trace}: {error.strerror}")

    # The query of a URL may be a secret.
    subject = " ".join(settings.command) if remote is None else remote.url.partition("?")[0]
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
        remote=remote,
    )

    async def play() -> RunResult:
        async with progress:
            return await run.run(versions)

    try:
        return run_program(play())
    except TransportError as error:
        raise click.UsageError(f"The agent cannot be started: {error}") from None


def _every_scenario() -> list[Scenario[AgentContext]]:
    """Return the scenarios for all kinds of agents: one file of settings may be for several."""
    found = list(agent_scenarios())
    with suppress(ModuleNotFoundError):  # without the extra `remote`
        found += [*remote_scenarios("websocket"), *remote_scenarios("http")]
    return found


def _write(result: RunResult, files: dict[str, Path | None]) -> list[str]:
    """Write every report that can be written; return error messages for the others."""
    wrong: list[str] = []
    for name, path in files.items():
        if path is None:
            continue
        try:
            write_atomically(path, report_bytes(name, result))
        except OSError as error:
            wrong.append(f"Cannot write {path}: {error.strerror}")
    return wrong
