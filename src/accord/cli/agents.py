"""`accord agents`: lists the names for `accord ask --agent`."""

from __future__ import annotations

import json
import shlex
import sys

import click

from accord.cli import settings
from accord.cli.agent_names import DEFAULT, named_agents

__all__ = ("command",)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(as_json: bool) -> int:
    """List the named agents, for `accord ask --agent NAME`.

    The list has the agents of your settings file, the bundled ones and well-known ones. The
    default is marked with *.
    """
    try:
        known = settings.load()
    except settings.SettingsError as error:
        raise click.UsageError(str(error)) from None
    agents = named_agents(known)
    default = known.ask.agent or DEFAULT
    if as_json:
        rows = [
            {
                "name": agent.name,
                "command": list(agent.argv),
                "source": agent.source,
                "installed": agent.is_installed,
                "default": agent.name == default,
            }
            for agent in agents.values()
        ]
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    width = max(map(len, agents))
    for agent in sorted(agents.values(), key=lambda one: (not one.is_installed, one.name)):
        mark = "*" if agent.name == default else " "
        state = agent.source if agent.is_installed else "not installed"
        line = f"{mark} {agent.name:<{width}}  {state:<13}  {shlex.join(_display_argv(agent.argv))}"
        click.echo(line.rstrip())
    click.echo(f"\nSettings: {settings.path()}")
    return 0


def _display_argv(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command as a user would type it."""
    bundled = (sys.executable, "-m", "accord")
    return ("accord", *argv[3:]) if argv[:3] == bundled else argv
