"""The login of an agent that a session holds: its owner has no terminal, so the client runs it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence

import click

from accord_terminal.sessions.errors import LoginRequired
from accord_terminal.sessions.records import Record
from accord_terminal.toolkit import agent_names as settings
from accord_terminal.toolkit.agent_names import SettingsError, find_agent


def login_words(record: Record) -> tuple[str, ...]:
    """Return the arguments of `accord` that log in to the agent of a session."""
    try:
        is_known = find_agent(record.agent, settings.load()).argv == tuple(record.argv)
    except (SettingsError, ValueError):
        is_known = False
    return ("agents", "login", record.agent if is_known else shlex.join(record.argv))


def refusal(record: Record, why: str) -> str:
    """Return what a user reads whose session needs a login."""
    return f"{why}: log in with `{shlex.join(['accord', *login_words(record)])}`"


def offer_login(error: LoginRequired, words: Sequence[str], cwd: str) -> bool:
    """Ask the user at the terminal whether to log in now; return whether that succeeded."""
    click.echo(f"accord: {error}", err=True)
    if not click.confirm("Log in now?", default=True, err=True):
        return False
    command = [sys.executable, "-m", "accord", *words]
    return subprocess.run(command, cwd=cwd, check=False).returncode == 0
