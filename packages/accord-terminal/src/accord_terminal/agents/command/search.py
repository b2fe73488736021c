"""`accord agents search`: the agents of a registry."""

from __future__ import annotations

import json
import shutil

import click

from accord_terminal.agents.command.options import catalogue_of, registry_option, reports_errors
from accord_terminal.agents.index import Entry
from accord_terminal.agents.installation import installable_kinds
from accord_terminal.toolkit.agent_names import load_installed


@click.command()
@click.argument("words", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@registry_option
@reports_errors
def command(words: tuple[str, ...], as_json: bool, registry: str) -> int:
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
