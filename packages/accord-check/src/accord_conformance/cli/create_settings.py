"""`accord check init`: creates a settings file."""

from __future__ import annotations

from pathlib import Path

import click

from accord_conformance.agent.settings import SETTINGS_FILE, template


@click.command("init")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default=str(SETTINGS_FILE))
def create_settings(file: Path) -> int:
    """Create a settings file for `accord check agent`.

    FILE is accord-check.toml by default. Change it for your agent.
    """
    if file.exists():
        raise click.UsageError(f"{file} already exists")
    try:
        file.write_text(template(), "utf-8")
    except OSError as error:
        raise click.UsageError(f"Cannot write {file}: {error.strerror}") from None
    click.echo(f"Created {file}. Enter the command that starts your agent, and its prompts.")
    return 0
