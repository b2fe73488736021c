"""`accord agents list`: the agents that have a name on this machine."""

from __future__ import annotations

import json
import shlex
import sys

import click

from accord_terminal.toolkit.agent_names import (
    DEFAULT,
    InstalledAgent,
    NamedAgent,
    SettingsError,
    load_installed,
    load_settings,
    named_agents,
    shown_settings_path,
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def command(as_json: bool) -> int:
    """List the named agents, for `--agent NAME`.

    The list has the agents of your settings file, those that `accord agents install` has
    installed, the bundled ones and well-known ones. The default is marked with *.
    """
    return print_agents(as_json=as_json)


def print_agents(*, as_json: bool) -> int:
    """Print the list; return the exit status."""
    try:
        known = load_settings()
        agents = named_agents(known)
        installed = load_installed()
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    default = known.ask.agent or DEFAULT
    if as_json:
        rows = [_json_row(agent, installed, default) for agent in agents.values()]
        click.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    width = max(map(len, agents))
    for agent in sorted(agents.values(), key=lambda one: (not one.is_installed, one.name)):
        mark = "*" if agent.name == default else " "
        state = agent.source if agent.is_installed else "not installed"
        line = f"{mark} {agent.name:<{width}}  {state:<13}  {_shown(agent, installed)}"
        click.echo(line.rstrip())
    for name, agent in installed.items():
        if agent.is_blocked:
            click.echo(f"  {name:<{width}}  in quarantine  {agent.quarantine}")
    click.echo(f"\nSettings: {shown_settings_path()}")
    return 0


def _json_row(
    agent: NamedAgent, installed: dict[str, InstalledAgent], default: str
) -> dict[str, object]:
    found = installed.get(agent.name) if agent.source == "installed" else None
    row: dict[str, object] = {
        "name": agent.name,
        "command": list(agent.argv),
        "source": agent.source,
        "installed": agent.is_installed,
        "default": agent.name == default,
    }
    return row if found is None else {**row, "version": found.version, "kind": found.kind}


def _shown(agent: NamedAgent, installed: dict[str, InstalledAgent]) -> str:
    """Return the version of an installed agent, or a command as a user would type it."""
    if agent.source == "installed":
        found = installed[agent.name]
        return f"{found.version} ({found.kind})"
    argv = agent.argv
    bundled = (sys.executable, "-m", "accord")
    return shlex.join(("accord", *argv[3:]) if argv[:3] == bundled else argv)
