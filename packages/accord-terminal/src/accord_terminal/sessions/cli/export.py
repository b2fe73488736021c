"""`accord session export`: writes a session as Markdown, HTML or JSON."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import click

from accord_terminal.sessions.cli.options import agent_option, cwd_option, name_option
from accord_terminal.sessions.errors import StoreError
from accord_terminal.sessions.export import exported
from accord_terminal.sessions.journal import JournalReader
from accord_terminal.sessions.lookup import existing_session
from accord_terminal.sessions.records import Store
from accord_terminal.toolkit.text import one_line

_FORMS = {".md": "markdown", ".html": "html", ".htm": "html", ".json": "json"}


@click.command("export")
@name_option
@agent_option
@cwd_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "html", "json"]),
    help="Format [default: by the name of the file, else markdown].",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a file that only you can read [default: standard output].",
)
def export_command(
    name: str | None, agent: str | None, cwd: Path, form: str | None, output: Path | None
) -> int:
    """Write a session as Markdown, HTML or JSON. `accord session import` reads the JSON."""
    store = Store()
    record = existing_session(store, name, cwd, agent)
    entries = [*JournalReader(store.journal_path(record.id)).new_entries()]
    suffix = "" if output is None else output.suffix.lower()
    data = exported(record, entries, form or _FORMS.get(suffix, "markdown"))
    if output is None:
        sys.stdout.buffer.write(data)
        return 0
    try:
        _write_private(output, data)
    except OSError as exc:
        raise StoreError(f"Cannot write {output}: {exc.strerror}") from None
    return 0


def _write_private(path: Path, data: bytes) -> None:
    """Write a file that only this user can read, also one that existed; warn if another owns it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            try:
                os.fchmod(file.fileno(), 0o600)
            except PermissionError:
                click.echo(
                    f"accord session export: {one_line(str(path))} belongs to another user: "
                    "others may be able to read it",
                    err=True,
                )
            file.truncate(0)
        file.write(data)
