"""`accord agents install`: an agent of a registry, under its name."""

from __future__ import annotations

import sys
from typing import cast

import click

from accord.cli import settings
from accord.cli.ask.safe_text import one_line
from accord.cli.installed_agents import InstalledAgent, load_installed
from accord_agents.command.options import catalogue_of, registry_option, reports_errors, warn
from accord_agents.index import Entry, Kind
from accord_agents.installation import choose_kind, install, own_target
from accord_agents.progress import OnProgress, Progress, no_progress
from accord_agents.registry import Catalogue

__all__ = ("command", "install_one")


@click.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["binary", "uvx", "npx"]),
    help="How it is installed. Default: the first of these that the agent has and this machine "
    "can use.",
)
@click.option("--force", is_flag=True, help="Also an agent in quarantine.")
@registry_option
@reports_errors
def command(name: str, kind: str | None, force: bool, registry: str) -> int:
    """Install an agent of the registry; then `--agent NAME` starts it everywhere.

    Packages are installed with uv or npm into a folder of their own. Archives are checked and
    extracted. If something fails, the version that was installed before stays.
    """
    catalogue = catalogue_of(registry)
    entry = catalogue.find(name)
    chosen = choose_kind(entry, cast("Kind | None", kind))
    old = load_installed().get(name)
    if (
        old is not None
        and (old.version, old.kind, old.is_blocked) == (entry.version, chosen, False)
        and not force
    ):
        click.echo(f"Nothing to do: {name} {old.version} is installed")
        return 0
    install_one(catalogue, entry, chosen, force=force)
    click.echo(f'Try it: accord ask "hello" --agent {name}')
    if name in settings.load().agents:
        warn(f"your settings have an agent {name} too, which --agent {name} starts")
    return 0


def install_one(catalogue: Catalogue, entry: Entry, kind: Kind, *, force: bool) -> InstalledAgent:
    """Install one agent and say so."""
    for text in entry.warnings:
        warn(f"{entry.id}: {text}")
    if kind == "binary" and not entry.binary[own_target()].sha256:
        warn(f"{entry.id}: the registry has no checksum of the archive")
    click.echo(f"Installing {entry.id} {entry.version} ({kind}) …", err=True)
    try:
        done = install(catalogue, entry, kind, force=force, on_progress=_progress_line())
    finally:
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", nl=False, err=True)
    click.echo(f"Installed {entry.id} {done.version}")
    return done


def _progress_line() -> OnProgress:
    """Return what shows the progress in one line of the terminal."""
    if not sys.stderr.isatty():
        return no_progress
    shown = [""]

    def show(progress: Progress) -> None:
        if str(progress) != shown[0]:
            shown[0] = str(progress)
            click.echo(f"\r\x1b[K  {one_line(shown[0], 70)}", nl=False, err=True)

    return show
