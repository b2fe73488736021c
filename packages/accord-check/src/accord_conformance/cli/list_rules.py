"""`accord check rules`: lists the rules."""

from __future__ import annotations

import json

import click
from msgspec import to_builtins

from accord_conformance.agent.scenarios import agent_scenarios
from accord_conformance.chain.conductor_scenarios import conductor_scenarios
from accord_conformance.chain.proxy_scenarios import proxy_scenarios
from accord_conformance.cli.show_report import show_rules
from accord_conformance.client.scenarios import client_scenarios
from accord_conformance.rules.selection import UnknownName, select_rules


@click.command("rules")
@click.option(
    "--only",
    "--area",
    "only",
    metavar="NAME",
    multiple=True,
    help="Only the rules of this area, scenario or id. Repeatable.",
)
@click.option("--version", type=click.Choice(["1", "2"]), help="Only the rules of one version.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(only: tuple[str, ...], version: str | None, as_json: bool) -> int:
    """List the rules, and how each is judged."""
    try:
        chosen = select_rules(
            only,
            [*agent_scenarios(), *client_scenarios(), *proxy_scenarios(), *conductor_scenarios()],
        )
    except UnknownName as unknown:
        raise click.UsageError(str(unknown)) from None
    found = [rule for rule in chosen if version is None or int(version) in rule.versions]
    if as_json:
        click.echo(json.dumps([to_builtins(rule) for rule in found], ensure_ascii=False, indent=2))
        return 0
    show_rules(found)
    return 0
