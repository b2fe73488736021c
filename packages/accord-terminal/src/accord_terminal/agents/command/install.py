"""`accord agents install`: an agent of a registry, under its name."""

from __future__ import annotations

import sys
import time
from typing import cast

import click

from accord_terminal.agents.command.options import (
    catalogue_of,
    registry_option,
    reports_errors,
    warn,
)
from accord_terminal.agents.index import Entry, Kind
from accord_terminal.agents.installation import Progress, choose_kind, install, own_target
from accord_terminal.agents.registry import Catalogue
from accord_terminal.toolkit.agent_names import InstalledAgent, load_installed, load_settings
from accord_terminal.toolkit.text import one_line

_PATIENCE_S = 2  # before the time of a step is shown
_LINE_S = 10.0  # between lines that are not at a terminal


@click.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["binary", "uvx", "npx"]),
    help="How to install it. Default: the first of these that the agent offers and this machine "
    "can use.",
)
@click.option("--force", is_flag=True, help="Install it even if it is in quarantine.")
@registry_option
@reports_errors
def command(name: str, kind: str | None, force: bool, registry: str) -> int:
    """Install an agent of the registry; then `--agent NAME` starts it everywhere.

    Packages are installed with uv or npm into a folder of their own. Archives are checked and
    extracted. If the installation fails, the earlier version stays.
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
    if name in load_settings().agents:
        warn(f"your settings file also defines an agent {name}: --agent {name} starts that one")
    return 0


def install_one(catalogue: Catalogue, entry: Entry, kind: Kind, *, force: bool) -> InstalledAgent:
    """Install one agent and say so."""
    for text in entry.warnings:
        warn(f"{entry.id}: {text}")
    if kind == "binary" and not entry.binary[own_target()].sha256:
        warn(f"{entry.id}: the registry has no checksum of the archive")
    click.echo(f"Installing {entry.id} {entry.version} ({kind}) …", err=True)
    try:
        done = install(catalogue, entry, kind, force=force, on_progress=_ProgressShown())
    finally:
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", nl=False, err=True)
    click.echo(f"Installed {entry.id} {done.version}")
    return done


class _ProgressShown:
    """Shows the progress in one line of the terminal; elsewhere in a line now and then."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown = ""
        self._step = ""
        self._step_began = self._last = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        """Show it if there is something new."""
        now = time.monotonic()
        if progress.step != self._step:
            self._step, self._step_began = progress.step, now
        text = str(progress)
        seconds = int(now - self._step_began)
        if progress.done is None and seconds >= _PATIENCE_S:
            text += f" ({seconds} s)"  # installers do not say how far they are
        if self._is_terminal:
            if text != self._shown:
                click.echo(f"\r\x1b[K  {one_line(text, 70)}", nl=False, err=True)
        elif now - self._last >= _LINE_S:
            self._last = now
            click.echo(f"  {one_line(text)}", err=True)
        self._shown = text
