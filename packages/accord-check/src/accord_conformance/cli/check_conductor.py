"""`accord check conductor`: starts a conductor and plays the client and every component."""

from __future__ import annotations

from typing import Any

import click

from accord_conformance.chain.conductor_probe import ConductorProbe
from accord_conformance.chain.conductor_scenarios import conductor_scenarios
from accord_conformance.chain.dialect import DIALECTS
from accord_conformance.chain.launch import AGENT, PROXY, ConductorProcess, component_names
from accord_conformance.cli.run_chain import ChainCommand, chain_options
from accord_conformance.cli.run_options import report_options, selection_options


@click.command("conductor", options_metavar="[OPTIONS]")
@selection_options
@click.option(
    "--dialect",
    type=click.Choice(list(DIALECTS)),
    default="acp",
    show_default=True,
    help="The methods of the chain that the proxies know.",
)
@chain_options
@report_options
@click.argument("arguments", metavar="-- COMMAND...", nargs=-1, required=True)
def command(
    version: str,
    only: tuple[str, ...],
    dialect: str,
    timeout: float,
    budget: float,
    arguments: tuple[str, ...],
    **reports: Any,
) -> int:
    """Start a conductor as an editor would, and test it.

    COMMAND starts the conductor with its components: the word {proxy}, once or several times, and
    then {agent}. Each is replaced by a command line that starts a component, which the kit plays.

    Exit status: 0 passed, 1 a MUST rule or a scenario failed, 2 usage error or the conductor does
    not start, 70 error in the kit.
    """
    names = component_names(arguments)
    if names[-1:] != ["agent"] or names.count("agent") != 1 or len(names) == 1:
        raise click.UsageError(f"COMMAND needs the word {PROXY}, then {AGENT}")
    run = ChainCommand(version, timeout, budget, reports)
    probe = ConductorProbe(
        lambda: ConductorProcess(arguments),
        names,
        DIALECTS[dialect],
        answer_s=run.answer_s,
        on_close=run.closed,
    )
    return run.run("conductor", conductor_scenarios(), only, probe.make_context, probe, arguments)
