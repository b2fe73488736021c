"""`accord session list` and `show`.

What connects to owners is imported only if a session has one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from accord_terminal.sessions.cli.options import agent_option, cwd_option, name_option
from accord_terminal.sessions.records import Record, Store, existing_session, has_owner
from accord_terminal.toolkit.text import one_line, table_lines, terminal_width

_WIDE = 70  # columns that a list with ids needs
_COLUMNS = {
    "name": "NAME",
    "state": "STATE",
    "agent": "AGENT",
    "prompts": "PROMPTS",
    "cwd": "DIRECTORY",
}
_QUEUED = b'{"kind":"queued"'


@click.command("list")
@click.option("--all", "every", is_flag=True, help="Include closed sessions.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_command(every: bool, as_json: bool) -> int:
    """List the sessions of all directories."""
    store = Store()
    records = [record for record in store if every or not record.closed]
    for error in store.unreadable:
        click.echo(f"accord session list: {one_line(error)}", err=True)
    rows = _rows(store, records)
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    if not rows:
        closed = 0 if every else sum(record.closed for record in store)
        more = f" ({closed} closed: `accord session list --all`)" if closed else ""
        click.echo(f"No open sessions{more}: create one with `accord session new`", err=True)
        return 0
    width = terminal_width()
    columns = [*_COLUMNS]
    if every:  # closed sessions may have the name of another
        columns.insert(0, "id")
        if width < _WIDE:
            columns.remove("prompts")
    head = [_COLUMNS.get(column, column.upper()) for column in columns]
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    names = [at for at, column in enumerate(columns) if column not in ("id", "state", "prompts")]
    left = [at for at, column in enumerate(columns) if column in ("id", "state")]
    for line in table_lines(
        head, cells, width, names=names, left=left, paths=[columns.index("cwd")]
    ):
        click.echo(line)
    return 0


@click.command("show")
@name_option
@agent_option
@cwd_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_command(name: str | None, agent: str | None, cwd: Path, as_json: bool) -> int:
    """Show a session: its agent, its owner and its queue."""
    store = Store()
    record = existing_session(store, name, cwd, agent)
    (row,) = _rows(store, [record])
    if as_json:
        click.echo(json.dumps(row, ensure_ascii=False, indent=2))
        return 0
    owner = "not running" if row["owner"] is None else f"process {row['owner']}"
    if row["owner"] is None and record.last_exit:
        owner += f" (the last one ended: {record.last_exit})"
    lines = {
        "session": f"{record.label} ({record.id})",
        "state": row["state"],
        "directory": record.cwd,
        "agent": record.agent if not record.agent_info else record.agent_info,
        "protocol": record.protocol or "unknown until the agent starts",
        "owner": owner,
        "context": _context(record),
        "options": _options(record),
        "created": record.created_at,
        "last used": record.used_at,
        "prompts": row["prompts"],
        "clients": ", ".join(row["clients"]) or "none",
    }
    for key, value in lines.items():
        click.echo(f"{key + ':':<11}{one_line(str(value))}")
    for question in row["questions"]:
        click.echo(f"{'waits for:':<11}{one_line(question, max(terminal_width() - 11, 20))}")
    for prompt in row["queue"]:
        by = one_line(prompt["by"], 40)
        room = terminal_width() - 11 - len(prompt["promptId"]) - len(by) - 6
        text = one_line(prompt["text"], max(room, 20))
        click.echo(f"{prompt['state'] + ':':<11}{prompt['promptId']}  {text}  ({by})")
    return 0


def _context(record: Record) -> str:
    return {
        "new": "new",
        "loaded": "loaded by the agent",
        "resumed": "resumed by the agent",
        "forked": "forked by the agent",
        "lost": "new: the agent could not restore the conversation",
    }.get(record.restored or "", "not started")


def _options(record: Record) -> str:
    if not record.agent_info:
        return "unknown until the agent starts"
    words = {
        name: "on" if value is True else value or "off" for name, value in record.values.items()
    }
    return ", ".join(f"{name}={word}" for name, word in words.items()) or "none"


def _rows(store: Store, records: list[Record]) -> list[dict[str, Any]]:
    owned = [record for record in records if has_owner(record.id)]
    states: dict[str, tuple[str, dict[str, Any]]] = {}
    if owned:
        import asyncio

        from accord_terminal.sessions.named import owner_states

        states = asyncio.run(owner_states(owned))
    return [_row(store, record, states.get(record.id)) for record in records]


def _row(store: Store, record: Record, found: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
    """Return a session for the list; `found` is what its owner says, None if it has none."""
    state, status = found or ("closed" if record.closed else "stopped", {})
    return {
        "id": record.id,
        "name": record.name,
        "state": state,
        "agent": record.agent,
        "cwd": record.cwd,
        "prompts": _count(store, record),
        "owner": record.owner if found else None,
        "protocol": record.protocol,
        "agentSession": record.agent_session,
        "createdAt": record.created_at,
        "usedAt": record.used_at,
        "closed": record.closed,
        "restored": record.restored,
        "options": record.values,
        "questions": status.get("questions", []),
        "queue": status.get("queue", []),
        "clients": [*status.get("clients", [])],
        "cursor": status.get("cursor"),
    }


def _count(store: Store, record: Record) -> int:
    """Return the number of prompts, without decoding the journal, which can be large."""
    try:
        with store.journal_path(record.id).open("rb") as file:
            return sum(line.startswith(_QUEUED) for line in file)
    except OSError:
        return 0


def _cell(value: Any) -> str:
    return "-" if value is None else one_line(str(value), 200)
