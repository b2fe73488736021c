"""`accord trace`: record, show and compare the messages between clients and agents."""

from __future__ import annotations

import click

from accord.cli.trace_diff import diff
from accord.cli.trace_export import export
from accord.cli.trace_record import record
from accord.cli.trace_show import show
from accord.cli.trace_stats import stats

__all__ = ("command",)


@click.group("trace")
def command() -> None:
    """Record the messages between a client and an agent, and read recordings."""


for _command in (diff, export, record, show, stats):
    command.add_command(_command)
