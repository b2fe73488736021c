"""`accord agents`: list, search, show, install, update, remove, run and login."""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ("command",)

_COMMANDS = {
    "install": "Install an agent of the registry.",
    "list": "List the named agents.",
    "login": "Log in to an agent.",
    "remove": "Remove an installed agent.",
    "run": "Start an agent on stdin and stdout, for an editor.",
    "search": "Search the registry.",
    "show": "Show an agent of the registry.",
    "update": "Install newer versions of installed agents.",
}


class _AgentsGroup(click.Group):
    """Imports only the command that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return import_module(f"accord_terminal.agents.command.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group("agents", cls=_AgentsGroup, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print the list as a JSON array.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> int:
    """List the named agents, for `--agent NAME`, and install more from a registry.

    Without a command, the list is printed.
    """
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError("Put --json after the command")
        return 0
    return import_module("accord_terminal.agents.command.list").print_agents(as_json=as_json)
