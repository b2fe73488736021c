"""Finds the session that a user names, or makes the record of a new one; offers its login."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from accord.text.excerpt import one_line
from accord_terminal.sessions.records import (
    USAGE,
    Approvals,
    LoginRequired,
    NoSession,
    Record,
    SessionsError,
    Store,
    folders_upward,
    now,
)
from accord_terminal.toolkit.agent_names import (
    NamedAgent,
    SettingsError,
    find_agent,
    load_settings,
    settings_path,
)

_MOST_CHARACTERS = 64


class LookupFailed(SessionsError):
    """The words of the user do not name one session."""

    status = USAGE


def named_agent(given: str | None) -> NamedAgent:
    """Return the agent for a value of `--agent`; None is the default one."""
    try:
        return find_agent(given, load_settings())
    except (SettingsError, ValueError) as exc:
        raise LookupFailed(str(exc)) from None


def check_name(name: str | None) -> str | None:
    """Return a name; raise `LookupFailed` for one that could not be typed or shown."""
    if name is None:
        return None
    is_plain = one_line(name) == name == " ".join(name.split())
    if not name or len(name) > _MOST_CHARACTERS or not is_plain or name.startswith("-"):
        raise LookupFailed(
            f"Expected a name of at most {_MOST_CHARACTERS} visible characters, got {name!r}"
        )
    return name


def existing_session(store: Store, name: str | None, cwd: Path, agent: str | None = None) -> Record:
    """Return the open session of a name, in this directory or above it.

    Raises `NoSession` if there is none, `LookupFailed` if several agents have one. An id of a
    session is a name, too.
    """
    records = [*store]
    if name is not None:
        for record in records:
            if record.id == name:
                return record
        if Store.is_id(name) and store.record_path(name).exists():
            return store.read(name)  # which explains why it cannot be read
    argv = None if agent is None else named_agent(agent).argv
    found = _find(records, cwd, name, argv)
    if not found:
        more = _closed_text(records, name, cwd)
        if count := len(store.unreadable):
            more += f". {count} record{'s' * (count > 1)} cannot be read: see `accord session list`"
        raise NoSession(_none_text(name, cwd, agent) + more)
    if len(found) > 1:
        raise LookupFailed(f"Several agents have this session here: give {_choices(found)}")
    return found[0]


def new_record(
    name: str | None,
    cwd: Path,
    agent: NamedAgent,
    *,
    protocol: Any = None,
    model: str | None = None,
    mode: str | None = None,
    options: Sequence[str] = (),
    mcp_files: Sequence[Path] = (),
    meta: dict[str, Any] | None = None,
    terminals: bool = False,
    approvals: Approvals | None = None,
    ttl_s: float = 300.0,
) -> Record:
    """Return the record of a new session; raise `LookupFailed` for a remote agent."""
    entry = agent.entry
    if "://" in agent.argv[0]:
        raise LookupFailed("A persistent session needs an agent that is a program, not a URL")
    defaults = tuple(
        f"{key}={value if isinstance(value, str) else 'on' if value else 'off'}"
        for key, value in entry.options.items()
    )
    return Record(
        id=Store.new_id(),
        name=check_name(name),
        cwd=str(cwd.resolve()),
        agent=agent.name,
        argv=agent.argv,
        env=dict(entry.env),
        created_at=now(),
        used_at=now(),
        protocol=protocol or entry.protocol,
        model=model or entry.model,
        mode=mode or entry.mode,
        options=(*defaults, *options),
        mcp_files=tuple(str(file.absolute()) for file in mcp_files) or _default_mcp(entry.mcp),
        meta=meta,
        terminals=terminals,
        approvals=approvals or Approvals(),
        ttl_s=ttl_s,
    )


def _find(
    records: Iterable[Record], cwd: Path, name: str | None, argv: tuple[str, ...] | None
) -> list[Record]:
    """Return the open sessions of a name in the nearest directory; with `argv`, of that agent."""
    matching = [
        record
        for record in records
        if not record.closed and record.name == name and argv in (None, record.argv)
    ]
    for folder in folders_upward(cwd):
        found = [record for record in matching if record.cwd == folder]
        if found:
            return found
    return []


def _default_mcp(named: str | None) -> tuple[str, ...]:
    return () if named is None else (str(settings_path().parent / named),)


def _none_text(name: str | None, cwd: Path, agent: str | None) -> str:
    what = "no session without a name" if name is None else f"no session {name!r}"
    whose = "" if agent is None else f" of the agent {agent}"
    create = "accord session new" + ("" if name is None else f" -s {name}")
    where = cwd.absolute()
    return f"Found {what}{whose} in {where} or above it: create it with `{create}`"


def _closed_text(records: Iterable[Record], name: str | None, cwd: Path) -> str:
    folders = {*folders_upward(cwd)}
    closed = [r for r in records if r.closed and r.name == name and r.cwd in folders]
    if not closed:
        return ""
    last = max(closed, key=lambda record: record.used_at)
    return f". One was closed: `accord session history -s {last.id}` shows it"


def _choices(records: Sequence[Record]) -> str:
    names = sorted({record.agent for record in records})
    if len(names) == len(records):
        return f"--agent {' or '.join(names)}, or an id"
    ids = " or ".join(f"{record.id} ({record.agent})" for record in records)
    return f"-s {ids}"  # the same name has meant several commands


# The login of an agent that a session holds: its owner has no terminal, so the client runs it.


def login_words(record: Record) -> tuple[str, ...]:
    """Return the arguments of `accord` that log in to the agent of a session."""
    try:
        is_known = find_agent(record.agent, load_settings()).argv == tuple(record.argv)
    except (SettingsError, ValueError):
        is_known = False
    return ("agents", "login", record.agent if is_known else shlex.join(record.argv))


def refusal(record: Record, why: str) -> str:
    """Return what a user reads whose session needs a login."""
    return f"{why}: log in with `{shlex.join(['accord', *login_words(record)])}`"


def offer_login(error: LoginRequired, words: Sequence[str], cwd: str) -> bool:
    """Ask the user at the terminal whether to log in now; return whether that succeeded."""
    import subprocess

    click.echo(f"accord: {error}", err=True)
    if not click.confirm("Log in now?", default=True, err=True):
        return False
    command = [sys.executable, "-m", "accord", *words]
    return subprocess.run(command, cwd=cwd, check=False).returncode == 0
