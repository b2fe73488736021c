"""`accord trace`: records, shows and compares the messages between clients and agents.

`command` is the group of its commands. Each is in the module of its name, except `tap`, which is in
`record`; `options` has what they share. What reads and writes recordings is in `accord_trace`.
"""

from __future__ import annotations

import importlib

import click

__all__ = ("command",)

_COMMANDS = {
    "record": "Run an agent and record it.",
    "tap": "Record as a proxy of a chain.",
    "show": "Show a recording, one line per message.",
    "stats": "Show times, tokens and cost.",
    "replay": "Act as the recorded agent, or client.",
    "diff": "Compare two recordings.",
    "export": "Write another format.",
}


class _Commands(click.Group):
    """Imports a command when it is called: clients wait for `accord trace record` to start."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        if cmd_name == "tap":
            return importlib.import_module("accord_terminal.trace.record").tap_command
        return importlib.import_module(f"accord_terminal.trace.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands)
def command() -> None:
    """Record the messages between a client and an agent, and read recordings."""
