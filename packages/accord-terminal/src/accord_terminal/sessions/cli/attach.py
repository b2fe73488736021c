"""`accord session attach`: is an agent for an editor, which talks to a persistent session."""

from __future__ import annotations

from pathlib import Path

import click

from accord.errors import TransportError
from accord.local.run import run_program
from accord.transports.memory import relay
from accord.transports.stdio import stdio
from accord_terminal.sessions.cli.options import agent_option, cwd_option
from accord_terminal.sessions.lookup import existing_session
from accord_terminal.sessions.owners import transport_to
from accord_terminal.sessions.records import Record, Store


@click.command("attach")
@click.argument("name", required=False)
@agent_option
@cwd_option
def attach_command(name: str | None, agent: str | None, cwd: Path) -> int:
    """Be an agent on stdin and stdout that is the session NAME: for the settings of an editor.

    A new session of the editor shows the conversation so far. When the editor ends, the session
    stays open.
    """
    store = Store()
    record = existing_session(store, name, cwd, agent)
    try:
        ended = run_program(_relay(record, store))
    except TransportError as error:
        ended = error
    if ended is None:
        return 0
    click.echo(f"accord session attach: {ended}", err=True)
    return 1


async def _relay(record: Record, store: Store) -> Exception | None:
    return await relay(stdio(restore=False), await transport_to(record, store))
