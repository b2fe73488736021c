"""`accord check agent`: starts an agent and tests it with scenarios."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from accord.errors import TransportError
from accord.local.run import run_program
from accord.text.secrets import plain_url, redacted_argv
from accord.transports.base import Transport
from accord.transports.process import process
from accord.transports.registry import RemoteOptions, is_url, transport_for_url
from accord_conformance.agent.context import AgentContext, RemoteAgent
from accord_conformance.agent.run import AgentRun
from accord_conformance.agent.scenarios import agent_scenarios, remote_scenarios
from accord_conformance.agent.settings import (
    SETTINGS_FILE,
    InvalidSettings,
    Settings,
    read_settings,
)
from accord_conformance.cli.run_options import (
    FILE,
    SECONDS,
    Progress,
    RunOptions,
    finite,
    report_options,
    selection_options,
)
from accord_conformance.harness import RawConnection, Scenario, write_trace
from accord_conformance.reports.report import RunResult
from accord_conformance.rules.manifest import UnknownName, select_scenarios, validate_skips
from accord_terminal.toolkit.options import read_token, token_file_option


@click.command("agent", options_metavar="[OPTIONS]")
@selection_options
@click.option(
    "--config",
    type=FILE,
    metavar="FILE",
    help=f"Settings file [default: {SETTINGS_FILE}, if present].",
)
@click.option("--timeout", type=SECONDS, metavar="SECONDS", help="Time limit of a turn.")
@click.option(
    "--budget",
    type=SECONDS,
    metavar="SECONDS",
    help="Time limit of the whole run [default: 600, or that of the settings].",
)
@report_options
@token_file_option
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Certificates to trust instead of the system's.",
)
@click.option("--insecure", is_flag=True, help="Send the token unencrypted to another machine.")
@click.argument("arguments", metavar="[URL | -- COMMAND...]", nargs=-1)
def check_agent(
    version: str,
    config: Path | None,
    only: tuple[str, ...],
    timeout: float | None,
    budget: float | None,
    token_file: Path | None,
    ca_file: Path | None,
    insecure: bool,
    arguments: tuple[str, ...],
    **reports: Any,
) -> int:
    """Start an agent as an editor would, and test it.

    COMMAND starts the agent; it can also be given in the settings file, with prompts and time
    limits. Create that file with `accord check init`. URL is the address of an agent on the
    network: ws:// and wss:// for WebSocket, http:// and https:// for streamable HTTP.

    Exit status: 0 passed, 1 a MUST rule or a scenario failed, 2 usage error or the agent cannot
    be started or reached, 3 no turn was tested, because a login is required or every prompt
    failed, 70 error in the kit.
    """
    remote = None
    if len(arguments) == 1 and is_url(arguments[0]):
        secured = RemoteOptions(token=read_token(token_file), insecure=insecure, ca_file=ca_file)
        remote = _remote(arguments[0], secured)
    settings = _settings(config, timeout, arguments)
    if budget is not None:
        settings.budget = finite("--budget", budget)
    options = RunOptions.check(reports)
    versions = (1, 2) if version == "both" else (int(version),)
    faults: list[str] = []
    result = _run(settings, remote, versions, only, options.trace, faults)
    return options.finish(result, faults)


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
        settings.timeout = finite("--timeout", timeout)
        settings.answer = min(settings.answer, timeout)
    return settings


def _remote(url: str, options: RemoteOptions) -> RemoteAgent:
    try:
        transport_for_url(url, options)
    except (ValueError, ModuleNotFoundError) as error:
        raise click.UsageError(str(error)) from None
    return RemoteAgent(url, options)


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

    subject = " ".join(redacted_argv(settings.command)) if remote is None else plain_url(remote.url)
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
        if remote is not None:
            raise click.UsageError(str(error)) from None
        raise click.UsageError(f"The agent cannot be started: {error}") from None


def _every_scenario() -> list[Scenario[AgentContext]]:
    """Return the scenarios for all kinds of agents: one file of settings may be for several."""
    found = list(agent_scenarios())
    with suppress(ModuleNotFoundError):  # without the extra `remote`
        found += [*remote_scenarios("websocket"), *remote_scenarios("http")]
    return found
