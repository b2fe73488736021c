"""`accord agents show`: one agent of a registry."""

from __future__ import annotations

import json

import click

from accord_terminal.agents.command.options import catalogue_of, registry_option, reports_errors
from accord_terminal.agents.installation import installable_kinds, source_text
from accord_terminal.toolkit.agent_names import load_installed


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@registry_option
@reports_errors
def command(name: str, as_json: bool, registry: str) -> int:
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
