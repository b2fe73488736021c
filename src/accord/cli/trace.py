"""`accord trace`: record, show and compare the messages between clients and agents."""

from __future__ import annotations

import click

from accord.cli.trace_record import record
from accord.cli.trace_show import show

__all__ = ("command",)


@click.group("trace")
def command() -> None:
    """Record the messages between a client and an agent, and read recordings."""


for _command in (record, show):
    command.add_command(_command)
