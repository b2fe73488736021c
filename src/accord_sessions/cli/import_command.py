"""`accord session import`: stores sessions of acpx, or an exported session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from accord.text import lenient_json
from accord_sessions.acpx import archive_session, record_files, stored_session
from accord_sessions.cli.options import json_option
from accord_sessions.entries import Entry
from accord_sessions.errors import StoreError
from accord_sessions.export import SCHEMA, Archive
from accord_sessions.journal import Journal
from accord_sessions.records import Record, Store

__all__ = ("import_command",)

_decode_entry = msgspec.json.Decoder(Entry).decode


@click.command("import")
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("-s", "--session", "name", metavar="NAME", help="Name of the imported session.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of the imported session [default: the recorded one].",
)
@json_option
def import_command(path: Path | None, name: str | None, cwd: Path | None, as_json: bool) -> int:
    """Import sessions of acpx, or a file of `accord session export --format json`.

    PATH is the folder of acpx [default: ~/.acpx], one of its records or archives, or an export. A
    session that was imported before is skipped. If an open session has the same agent, directory
    and name, the imported one is stored as closed.
    """
    store = Store()
    known = {record.imported_from for record in store}
    source = path or Path.home() / ".acpx"
    if not source.exists():
        raise StoreError(f"There is no folder {source}")
    found = 0
    rows: list[dict[str, Any]] = []
    for record, entries in _sessions(source):
        found += 1
        if record.imported_from in known:
            if not as_json:
                click.echo(f"skipped {record.label}: it was imported before")
            continue
        if name is not None:
            record.name = name
        if cwd is not None:
            record.cwd = str(cwd.resolve())
        _save(store, record, entries)
        state = "closed" if record.closed else "open"
        rows.append({"id": record.id, "name": record.name, "state": state, "cwd": record.cwd})
        if not as_json:
            click.echo(f"imported {record.label} ({record.id}), {state}, in {record.cwd}")
    if not found:
        raise StoreError(f"Expected records of acpx or an export of a session in {source}")
    if as_json:
        click.echo(json.dumps({"imported": rows, "skipped": found - len(rows)}, ensure_ascii=False))
    return 0


def _save(store: Store, record: Record, entries: list[Entry]) -> None:
    journal = Journal(store.journal_path(record.id))
    try:
        for entry in entries:
            journal.append(entry)
        journal.sync()
    finally:
        journal.close()
    if not record.closed:
        _, is_new = store.find_or_create(record)
        if is_new:
            return
        record.closed = True
    store.write(record)


def _sessions(source: Path) -> Iterator[tuple[Record, list[Entry]]]:
    for file in record_files(source):
        found = _exported(file) if source.is_file() else None
        found = stored_session(file) if found is None else found
        if found is not None:
            yield found


def _exported(file: Path) -> tuple[Record, list[Entry]] | None:
    try:
        data = file.read_bytes()
        value = lenient_json.loads(data)
    except (OSError, lenient_json.NotJson) as exc:
        raise StoreError(f"Cannot read {file}: {exc}") from None
    if not lenient_json.is_object(value):
        return None
    if value.get("schema") != SCHEMA:
        return archive_session(value, str(file))
    try:
        archive = msgspec.json.decode(data, type=Archive)
        entries = [_decode_entry(entry) for entry in archive.entries]
    except msgspec.MsgspecError as exc:
        raise StoreError(f"The export {file} is invalid: {exc}") from None
    record = archive.record
    record.imported_from = f"accord:{record.id}"
    record.id, record.owner, record.restored = Store.new_id(), None, None
    return record, entries
