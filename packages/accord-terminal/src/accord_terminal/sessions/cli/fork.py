"""`accord session fork`: starts a session as a copy of another."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
from msgspec.structs import replace

from accord_terminal.sessions.cli.options import (
    agent_option,
    cwd_option,
    json_option,
    name_option,
    print_result,
)
from accord_terminal.sessions.cli.waiting import shows_wait
from accord_terminal.sessions.errors import SessionsError
from accord_terminal.sessions.journal import Journal, JournalReader
from accord_terminal.sessions.lookup import LookupFailed, check_name, existing_session
from accord_terminal.sessions.owners import reach_owner
from accord_terminal.sessions.records import Record, Store, now


@click.command("fork")
@click.argument("new_name")
@name_option
@agent_option
@cwd_option
@json_option
def fork_command(
    new_name: str, name: str | None, agent: str | None, cwd: Path, as_json: bool
) -> int:
    """Start the session NEW_NAME as a copy of another: both continue from here on their own.

    The agent must be able to fork its sessions.
    """
    store = Store()
    source = existing_session(store, name, cwd, agent)
    if source.agent_session is None:
        raise SessionsError(f"The session {source.label} has not been used yet")
    copy = replace(
        source,
        id=Store.new_id(),
        name=check_name(new_name),
        created_at=now(),
        used_at=now(),
        agent_session=None,
        restored=None,
        owner=None,
        last_exit=None,
        closed=False,
        forked_from=source.id,
        fork_of=source.agent_session,
    )
    asyncio.run(_fork(store, source, copy))
    result = {"id": copy.id, "name": copy.name, "forkedFrom": source.id}
    text = f"created the session {copy.label} ({copy.id}) as a copy of {source.label}"
    print_result(result, text, as_json=as_json)
    return 0


async def _fork(store: Store, source: Record, copy: Record) -> None:
    try:
        _copy_journal(store.journal_path(source.id), store.journal_path(copy.id))
        _, is_new = store.find_or_create(copy)
        if not is_new:
            raise LookupFailed(f"There is a session {copy.label} already")
        async with shows_wait(copy):
            (await reach_owner(copy, store)).close()
    except SessionsError:
        store.delete(copy.id)
        raise


def _copy_journal(source: Path, copy: Path) -> None:
    journal = Journal(copy)
    try:
        for entry in JournalReader(source).new_entries():
            journal.append(entry)
    finally:
        journal.close()
