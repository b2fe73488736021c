"""`accord agents update`: newer versions of installed agents."""

from __future__ import annotations

import click

from accord.errors import AccordError
from accord_terminal.agents.command.install import install_one
from accord_terminal.agents.command.options import catalogue_of, reports_errors, warn
from accord_terminal.agents.index import InstallError
from accord_terminal.agents.installation import choose_kind
from accord_terminal.agents.registry import Catalogue
from accord_terminal.toolkit.agent_names import load_installed


@click.command()
@click.argument("names", nargs=-1)
@reports_errors
def command(names: tuple[str, ...]) -> int:
    """Install the newest versions of NAMES, or of all installed agents.

    Each comes from the registry that it was installed from. Exit status: 1 if one failed.
    """
    installed = load_installed()
    for name in names:
        if name not in installed:
            raise InstallError(
                f"{name} is not installed: `accord agents` lists the installed agents"
            )
    catalogues: dict[str, Catalogue] = {}
    failed = False
    for name in names or sorted(installed):
        old = installed[name]
        try:
            if old.registry not in catalogues:
                catalogues[old.registry] = catalogue_of(old.registry)
            catalogue = catalogues[old.registry]
            entry = catalogue.find(name)
            if entry.version == old.version:
                click.echo(f"{name} {old.version} is up to date")
                continue
            click.echo(f"{name} {old.version} → {entry.version}")
            install_one(catalogue, entry, choose_kind(entry, old.kind), force=False)
        except AccordError as error:
            warn(str(error))
            failed = True
    if not installed:
        click.echo("No agents are installed")
    return 1 if failed else 0
