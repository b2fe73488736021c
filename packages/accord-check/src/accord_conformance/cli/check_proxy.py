"""`accord check proxy`: starts a proxy and plays its conductor, with an editor and an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from accord.transports.base import Transport
from accord.transports.process import process
from accord_conformance.chain.detect import ProxyProbe
from accord_conformance.chain.dialect import DIALECTS
from accord_conformance.chain.proxy_context import ProxySettings
from accord_conformance.chain.proxy_scenarios import proxy_scenarios
from accord_conformance.cli.run_chain import ChainCommand, chain_options
from accord_conformance.cli.run_options import report_options, selection_options


@click.command("proxy", options_metavar="[OPTIONS]")
@selection_options
@click.option(
    "--dialect",
    type=click.Choice(list(DIALECTS)),
    help="The methods of the chain that the proxy knows [default: tried out].",
)
@click.option(
    "--changes",
    metavar="METHOD",
    multiple=True,
    help="A method that the proxy changes or answers on purpose. Repeatable.",
)
@chain_options
@report_options
@click.argument("arguments", metavar="-- COMMAND...", nargs=-1, required=True)
def command(
    version: str,
    only: tuple[str, ...],
    dialect: str | None,
    changes: tuple[str, ...],
    timeout: float,
    budget: float,
    arguments: tuple[str, ...],
    **reports: Any,
) -> int:
    """Start a proxy as a conductor would, and test it.

    COMMAND starts the proxy, which reads from stdin and writes to stdout. The editor before it and
    the agent after it are played. What the proxy does not change must arrive as it was sent: name
    each method that it changes with --changes.

    Exit status: 0 passed, 1 a MUST rule or a scenario failed, 2 usage error or the proxy does not
    start, 70 error in the kit.
    """
    run = ChainCommand(version, timeout, budget, reports)
    settings = ProxySettings(answer_s=run.answer_s, changes=frozenset(changes))

    def connect(noise: Callable[[str], None]) -> Transport:
        return process(*arguments, on_stdout_noise=noise)()

    probe = ProxyProbe(connect, settings, DIALECTS.get(dialect or ""), run.closed)
    return run.run("proxy", proxy_scenarios(), only, probe.make_context, probe, arguments)
