"""The commands of `accord agents` that need a registry: search, show, install, update, remove."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import cast

import click

from accord.errors import AccordError
from accord_terminal.agents.command import F, reports_errors
from accord_terminal.agents.installation import (
    Progress,
    choose_kind,
    install,
    installable_kinds,
    note_quarantine,
    own_target,
    remove,
    source_text,
)
from accord_terminal.agents.registry import (
    DEFAULT_REGISTRY,
    REGISTRY_VARIABLE,
    Catalogue,
    Entry,
    InstallError,
    Kind,
    load_catalogue,
)
from accord_terminal.toolkit.agent_names import InstalledAgent, load_installed, load_settings
from accord_terminal.toolkit.text import one_line

_OPTION = click.option(
    "--registry",
    metavar="URL",
    envvar=REGISTRY_VARIABLE,
    default=DEFAULT_REGISTRY,
    help="Another registry, as URL or file. Default: ACCORD_REGISTRY, or the public one.",
)


def registry_option(function: F) -> F:
    """Add the option `--registry`."""
    return _OPTION(function)


def catalogue_of(registry: str, *, quiet: bool = False) -> Catalogue:
    """Load a registry, print its warnings, and note which installed agents are in quarantine."""
    catalogue = load_catalogue(registry)
    if not quiet:
        for text in catalogue.warnings:
            warn(text)
    note_quarantine(catalogue.url, catalogue.quarantine)
    return catalogue


def warn(text: str) -> None:
    """Print a warning on stderr."""
    click.echo(f"accord agents: warning: {text}", err=True)


@click.command()
@click.argument("words", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@registry_option
@reports_errors
def search_command(words: tuple[str, ...], as_json: bool, registry: str) -> int:
    """Search the registry; without WORDS, all of its agents are listed.

    Installed agents are marked with +. Agents in quarantine are not shown. The last column says
    how the agent would be installed here. Exit status: 1 if nothing is found.
    """
    catalogue = catalogue_of(registry)
    found = [
        entry
        for name, entry in sorted(catalogue.agents.items())
        if name not in catalogue.quarantine and _matches(entry, words)
    ]
    if as_json:
        rows = [
            {
                "name": entry.id,
                "title": entry.name,
                "version": entry.version,
                "description": entry.description,
                "kinds": list(installable_kinds(entry)),
                "kind": _kind(entry),
            }
            for entry in found
        ]
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0 if found else 1
    if not found:
        click.echo("The registry has no such agent", err=True)
        return 1
    installed = load_installed()
    columns = shutil.get_terminal_size().columns
    name_width = min(max(len(entry.id) for entry in found), 30)
    version_width = min(max(len(entry.version) for entry in found), 16)
    for entry in found:
        mark = "+" if entry.id in installed else " "
        kind = _kind(entry) or "-"
        line = (
            f"{mark} {entry.id:<{name_width}}  {entry.version:<{version_width}}  {kind:<6}  "
            f"{entry.description or entry.name}"
        )
        click.echo(line if len(line) <= columns else f"{line[: columns - 1]}…")
    return 0


def _kind(entry: Entry) -> str | None:
    """Return how an agent would be installed here."""
    kinds = installable_kinds(entry)
    return next((kind for kind, missing in kinds.items() if missing is None), None)


def _matches(entry: Entry, words: tuple[str, ...]) -> bool:
    text = f"{entry.id} {entry.name} {entry.description}".casefold()
    return all(word.casefold() in text for word in words)


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@registry_option
@reports_errors
def show_command(name: str, as_json: bool, registry: str) -> int:
    """Show an agent of the registry, and what installing it would do."""
    catalogue = catalogue_of(registry)
    entry = catalogue.find(name)
    installed = load_installed().get(name)
    kinds = installable_kinds(entry)
    reason = catalogue.quarantine.get(name)
    if as_json:
        row = {
            "name": entry.id,
            "title": entry.name,
            "version": entry.version,
            "description": entry.description,
            "website": entry.website,
            "license": entry.license,
            "authors": list(entry.authors),
            "kinds": {kind: {"runs_here": why is None, "why": why} for kind, why in kinds.items()},
            "installed": None if installed is None else installed.version,
            "quarantine": reason,
            "warnings": list(entry.warnings),
        }
        click.echo(json.dumps(row, ensure_ascii=False, indent=2))
        return 0
    rows = [
        ("", f"{entry.name} {entry.version}"),
        ("", entry.description),
        ("Authors", ", ".join(entry.authors)),
        ("License", entry.license),
        ("Website", entry.website),
        *(
            (kind, f"{source_text(entry, kind)}{'' if why is None else f' ({why})'}")
            for kind, why in kinds.items()
        ),
        ("Installed", "no" if installed is None else f"{installed.version} ({installed.kind})"),
        ("Quarantine", reason or ""),
        *(("Warning", text) for text in entry.warnings),
    ]
    for title, text in rows:
        if text:
            click.echo(f"{title + ':':<12}{text}" if title else text)
    return 0


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
def install_command(name: str, kind: str | None, force: bool, registry: str) -> int:
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


@click.command()
@click.argument("names", nargs=-1)
@reports_errors
def update_command(names: tuple[str, ...]) -> int:
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


@click.command()
@click.argument("name")
@reports_errors
def remove_command(name: str) -> int:
    """Remove an installed agent and its files."""
    remove(name)
    click.echo(f"Removed {name}")
    return 0
