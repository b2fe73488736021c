"""`accord check`: tests agents and clients against the rules of the protocol."""

from __future__ import annotations

import importlib
import sys

import click

__all__ = ("command",)

# The module and the function of each command, and what it does.
_COMMANDS = {
    "agent": ("check_agent", "check_agent", "Start an agent and test it."),
    "client": (
        "check_client",
        "check_client",
        "Run an agent that tests the client connected to it.",
    ),
    "proxy": ("check_chain", "check_proxy", "Start a proxy and test it."),
    "conductor": ("check_chain", "check_conductor", "Start a conductor and test it."),
    "init": (
        "create_settings",
        "create_settings",
        "Create a settings file for `accord check agent`.",
    ),
    "rules": ("check_trace", "list_rules", "List the rules."),
    "trace": ("check_trace", "check_trace", "Check a recorded conversation."),
}


class _Commands(click.Group):
    """Imports a command when it is called: clients wait for `accord check client` to start."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, function, _ = _COMMANDS[cmd_name]
        return getattr(importlib.import_module(f"{__name__}.{module}"), function)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, _, summary) in _COMMANDS.items()])


@click.group(cls=_Commands)
def command() -> None:
    """Test agents and clients against the rules of the protocol.

    Exit status: 0 if no MUST rule failed (with --strict, no SHOULD rule either), 1 if one did, 70
    after an error in the kit. Rules that only the reference SDKs require, or that Accord derived,
    count only with --strict.
    """
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="replace")  # the characters that the encoding of stdout does not have
