"""`accord session import`: stores sessions of acpx, or an exported session."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from accord.text import lenient_json
from accord_terminal.sessions.acpx import archive_session, record_files, stored_session
from accord_terminal.sessions.cli.options import json_option
from accord_terminal.sessions.entries import Entry
from accord_terminal.sessions.errors import FAILED, StoreError
from accord_terminal.sessions.export import SCHEMA, Archive
from accord_terminal.sessions.journal import Journal
from accord_terminal.sessions.locks import locked
from accord_terminal.sessions.lookup import LookupFailed, check_name, named_agent
from accord_terminal.sessions.records import Record, Store
from accord_terminal.toolkit.text import one_line

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
    and name, the imported one is stored as closed. Look at the printed agent: it is the command
    that the next prompt starts.
    """
    check_name(name)
    store = Store()
    source = path or Path.home() / ".acpx"
    if not source.exists():
        raise StoreError(f"There is no folder {source}")
    files = record_files(source)
    skipped = 0
    rows: list[dict[str, Any]] = []
    lines: list[str] = []  # shown when the lock is free: the reader of stdout may be slow
    errors: list[str] = []
    with locked(store.folder / "import.lock"):  # of two imports, one skips what the other stores
        known = {record.imported_from for record in store}
        for file in files:
            try:
                session = _session(file, is_named=source.is_file())
                if session is None:
                    continue
                record, entries = session
                if record.imported_from in known:
                    skipped += 1
                    lines.append(f"skipped {one_line(record.label)}: it was imported before")
                    continue
                if name is not None:
                    record.name = name
                if cwd is not None:
                    record.cwd = str(cwd.resolve())
                _save(store, record, entries)
            except StoreError as exc:
                errors.append(str(exc))
                continue
            known.add(record.imported_from)
            rows.append(_row(record))
            lines.append(_line(record))
    if not (rows or skipped or errors):
        raise StoreError(f"Expected records of acpx or an export of a session in {source}")
    for line in () if as_json else lines:
        click.echo(line)
    for error in errors:
        click.echo(f"accord session import: {one_line(error)}", err=True)
    if as_json:
        click.echo(json.dumps({"imported": rows, "skipped": skipped}, ensure_ascii=False))
    return FAILED if errors else 0


def _row(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "state": "closed" if record.closed else "open",
        "cwd": record.cwd,
        "agent": record.argv,
    }


def _line(record: Record) -> str:
    state = "closed" if record.closed else "open"
    where, agent = one_line(record.cwd), one_line(shlex.join(record.argv))
    return f"imported {one_line(record.label)} ({record.id}), {state}, in {where}, agent {agent}"


def _save(store: Store, record: Record, entries: list[Entry]) -> None:
    try:
        _write_journal(store, record, entries)
        if not record.closed:
            _, is_new = store.find_or_create(record)
            if is_new:
                return
            record.closed = True
        store.write(record)
    except StoreError:
        with suppress(StoreError):
            store.delete(record.id)
        raise


def _write_journal(store: Store, record: Record, entries: list[Entry]) -> None:
    journal = Journal(store.journal_path(record.id))
    try:
        for entry in entries:
            journal.append(entry)
        journal.sync()
    finally:
        journal.close()


def _session(file: Path, *, is_named: bool) -> tuple[Record, list[Entry]] | None:
    """Return the session in a file; only a file that the user names can be an export."""
    found = _exported(file) if is_named else None
    return stored_session(file) if found is None else found


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
    record.env = _environment(record)
    return record, entries


def _environment(record: Record) -> dict[str, str | None]:
    """Return what the settings have for the agent: an export has no environment."""
    try:
        agent = named_agent(record.agent)
    except LookupFailed:
        return {}
    return dict(agent.entry.env) if agent.argv == record.argv else {}
