"""`accord agents`: the group, and the commands that need no registry: list, run and login.

Those that need one are in `registry_commands`. An editor waits for `run`, so only `login` imports
what talks to an agent, and does so when it is called.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from accord.errors import AccordError, AuthRequired
from accord.transports.command_line import find_program
from accord.transports.registry import is_url
from accord_terminal.toolkit.agent_names import (
    DEFAULT,
    InstalledAgent,
    NamedAgent,
    SettingsError,
    complete_name,
    find_agent,
    load_installed,
    load_settings,
    named_agents,
    shown_settings_path,
)
from accord_terminal.toolkit.text import one_line

if TYPE_CHECKING:
    from accord.client.agent_adapter import AuthMethod

F = TypeVar("F", bound=Callable[..., Any])

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
_HERE = ("list", "login", "run")


class _AgentsGroup(click.Group):
    """Imports the commands that need the registry when one of them is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = __name__ if cmd_name in _HERE else "accord_terminal.agents.registry_commands"
        return getattr(import_module(module), f"{cmd_name}_command")

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
    return _print_agents(as_json=as_json)


def reports_errors(function: F) -> F:
    """Turn errors into messages and the status 1."""

    @functools.wraps(function)
    def wrapped(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except AccordError as error:
            raise click.ClickException(str(error)) from None

    return wrapped  # type: ignore[return-value]  # it has the same signature


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_command(as_json: bool) -> int:
    """List the named agents, for `--agent NAME`.

    The list has the agents of your settings file, those that `accord agents install` has
    installed, the bundled ones and well-known ones. The default is marked with *.
    """
    return _print_agents(as_json=as_json)


def _print_agents(*, as_json: bool) -> int:
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


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", shell_complete=complete_name)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@reports_errors
def run_command(name: str, arguments: tuple[str, ...]) -> int:
    """Start an agent on stdin and stdout, with ARGUMENTS added to its own.

    This is the command for editors: it stays the same when the agent is updated.
    """
    agent = named_agents(load_settings()).get(name)
    if agent is None:
        blocked = load_installed().get(name)
        if blocked is not None:
            raise AccordError(f"{name} is in quarantine: {blocked.quarantine}")
        raise AccordError(f"Unknown agent {name!r}: `accord agents` lists the known ones")
    argv = agent.argv
    if is_url(argv[0]):
        argv = (sys.executable, "-m", "accord", "bridge", argv[0])
    program = find_program(argv[0], None, None)
    words = [program, *argv[1:], *arguments]
    env = {**os.environ, **agent.entry.env}
    if sys.platform == "win32":
        return subprocess.run(words, env=env, check=False).returncode
    try:
        os.execve(program, words, env)
    except OSError as error:
        raise AccordError(f"Cannot start {name}: {program}: {error.strerror}") from None


_INITIALIZE_S = 120.0


@click.command()
@click.argument("name", shell_complete=complete_name)
@click.option("--method", metavar="ID", help="The auth method. Default: the program asks.")
@reports_errors
def login_command(name: str, method: str | None) -> int:
    """Log in to an agent, in the browser or at this terminal, by one of its auth methods.

    The agent stores the login; `accord ask`, editors and fleets then use it.
    """
    from accord.local.run import run_program

    try:
        agent = find_agent(name, load_settings())
    except ValueError as error:
        raise AccordError(str(error)) from None
    return run_program(_login(agent, method))


async def _login(agent: NamedAgent, wanted: str | None) -> int:
    from accord.client.connect import connect
    from accord_terminal.toolkit.login import login_failure, run_terminal_login

    has_terminal = sys.stdin.isatty() and not is_url(agent.argv[0])
    command = agent.argv[0] if is_url(agent.argv[0]) else agent.argv
    env = None if is_url(agent.argv[0]) else agent.entry.env
    async with connect(
        command,
        env=env,
        terminal_login=has_terminal,
        initialize_timeout_s=_INITIALIZE_S,
        on_stderr=None,
    ) as connected:
        method = await _choose(agent.name, connected.auth_methods, wanted)
        if not method.terminal:
            click.echo(f"Logging in with {one_line(method.name, 60)} …", err=True)
            await connected.authenticate(method.id)
    if method.terminal:
        status = await run_terminal_login(agent.argv, agent.entry.env, method)
        if status != 0:
            raise AccordError(login_failure(method, status))
        await _prove(agent)
    click.echo(f"Logged in to {agent.name}")
    return 0


async def _choose(name: str, methods: tuple[AuthMethod, ...], wanted: str | None) -> AuthMethod:
    if not methods:
        raise AccordError(f"{name} has no auth methods")
    by_id = {method.id: method for method in methods}
    ids = ", ".join(one_line(each, 40) for each in by_id)
    if wanted is not None:
        if wanted not in by_id:
            raise AccordError(f"{name} has no auth method {wanted!r}: expected one of {ids}")
        return by_id[wanted]
    if len(methods) == 1:
        return methods[0]
    if not sys.stdin.isatty():
        raise AccordError(f"{name} has several auth methods: choose one with --method, of {ids}")
    for number, method in enumerate(methods, 1):
        text = f": {one_line(method.description, 100)}" if method.description else ""
        click.echo(f"  {number}  {one_line(method.name, 60)}{text}")
    return methods[await _number(len(methods)) - 1]


async def _number(count: int) -> int:
    """Ask for a number at the terminal; the event loop runs on, so that signals are handled."""
    from accord_terminal.toolkit.questions import read_line

    while True:
        click.echo("Log in with [1]: ", nl=False)
        line = await read_line()
        if not line:  # the end of the input
            raise AccordError("No auth method was chosen")
        text = line.strip() or "1"
        if text in map(str, range(1, count + 1)):
            return int(text)
        click.echo(f"Expected a number from 1 to {count}, got {one_line(text, 40)!r}.")


async def _prove(agent: NamedAgent) -> None:
    """Start the agent again, and open a session: this is refused without a login."""
    from accord.client.connect import connect

    async with connect(
        agent.argv, env=agent.entry.env, initialize_timeout_s=_INITIALIZE_S
    ) as connected:
        try:
            await connected.new_session()
        except AuthRequired as error:
            raise AccordError(f"{agent.name} still requires a login: {error}") from None
