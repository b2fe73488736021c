"""`accord agents remove`: an installed agent and its files."""

from __future__ import annotations

import click

from accord_terminal.agents.command.options import reports_errors
from accord_terminal.agents.installation import remove


@click.command()
@click.argument("name")
@reports_errors
def command(name: str) -> int:
    """Remove an installed agent and its files."""
    remove(name)
    click.echo(f"Removed {name}")
    return 0
