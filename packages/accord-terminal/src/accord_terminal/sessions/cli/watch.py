"""`accord session watch` and `history`: show the journal of a session."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from accord_terminal.sessions.cli.journal_text import JournalText
from accord_terminal.sessions.cli.options import agent_option, cwd_option, name_option
from accord_terminal.sessions.cli.waiting import StartNotes
from accord_terminal.sessions.cursor import cursor_of, place_of
from accord_terminal.sessions.entries import Entry
from accord_terminal.sessions.journal import JournalReader
from accord_terminal.sessions.lookup import existing_session
from accord_terminal.sessions.owners import has_owner
from accord_terminal.sessions.records import Record, Store

_PAUSE_S = 0.1  # between looks at the file


@click.command("watch")
@name_option
@agent_option
@cwd_option
@click.option("--cursor", metavar="CURSOR", help="Begin after this place [default: the end].")
@click.option("--from-start", is_flag=True, help="Begin at the first entry.")
@click.option("--no-follow", is_flag=True, help="End with the journal: do not wait for more.")
@click.option("--json", "as_json", is_flag=True, help="Print entries as JSON lines, with cursors.")
def watch_command(
    name: str | None,
    agent: str | None,
    cwd: Path,
    cursor: str | None,
    from_start: bool,
    no_follow: bool,
    as_json: bool,
) -> int:
    """Show what happens in a session until it is closed or you press Ctrl-C.

    Each line of --json has a cursor; `--cursor` continues after it. Watching needs no agent: it
    continues when the owner has ended and another one starts.
    """
    store = Store()
    record = existing_session(store, name, cwd, agent)
    reader = JournalReader(store.journal_path(record.id))
    entries = reader.new_entries()
    after = 0
    if cursor is not None:
        after = place_of(cursor, record.id)
    elif not from_start:
        newest = deque(entries, maxlen=1)
        after = newest[-1].seq if newest else 0
    shown = JournalText(record.protocol or 1, sys.stdout)
    is_last = no_follow
    start = StartNotes(record)
    while True:
        for entry in entries:
            if entry.seq <= after:
                shown.skip(entry)
            elif as_json:
                click.echo(_json(record, entry))
            else:
                shown.show(entry)
        if is_last:
            break
        start.look()
        time.sleep(_PAUSE_S)
        record = store.read(record.id)
        is_last = record.closed and not has_owner(record.id)  # all has been written
        entries = reader.new_entries()
    if not as_json:
        shown.close()
    return 0


@click.command("history")
@name_option
@agent_option
@cwd_option
@click.option("--tail", metavar="N", type=click.IntRange(min=1), help="Only the last N turns.")
@click.option("--json", "as_json", is_flag=True, help="Print entries as JSON lines.")
def history_command(
    name: str | None, agent: str | None, cwd: Path, tail: int | None, as_json: bool
) -> int:
    """Show the turns of a session."""
    store = Store()
    record = existing_session(store, name, cwd, agent)
    path = store.journal_path(record.id)
    entries = JournalReader(path).new_entries()
    if tail is not None:
        last = _last_prompts(entries, tail)
        entries = (entry for entry in JournalReader(path).new_entries() if entry.prompt in last)
    shown = JournalText(record.protocol or 1, sys.stdout)
    for entry in entries:
        if as_json:
            click.echo(_json(record, entry))
        else:
            shown.show(entry)
    if not as_json:
        shown.close()
    return 0


def _last_prompts(entries: Iterable[Entry], count: int) -> set[str]:
    prompts = dict.fromkeys(entry.prompt for entry in entries if entry.prompt is not None)
    return set([*prompts][-count:])


def _json(record: Record, entry: Entry) -> str:
    row: dict[str, Any] = {"cursor": cursor_of(record.id, entry.seq), "entry": entry}
    return msgspec.json.encode(row).decode()
