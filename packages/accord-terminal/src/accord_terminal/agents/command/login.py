"""`accord agents login`: logs in to an agent before it is used."""

from __future__ import annotations

import sys

import click

from accord.client.agent_adapter import AuthMethod
from accord.client.connect import connect
from accord.errors import AccordError, AuthRequired
from accord.local.run import run_program
from accord.transports.registry import is_url
from accord_terminal.agents.command.options import reports_errors
from accord_terminal.toolkit.agent_names import NamedAgent, complete_name, find_agent, load_settings
from accord_terminal.toolkit.login import login_failure, run_terminal_login
from accord_terminal.toolkit.questions import read_line
from accord_terminal.toolkit.text import one_line

_INITIALIZE_S = 120.0


@click.command()
@click.argument("name", shell_complete=complete_name)
@click.option("--method", metavar="ID", help="The auth method. Default: the program asks.")
@reports_errors
def command(name: str, method: str | None) -> int:
    """Log in to an agent, in the browser or at this terminal, by one of its auth methods.

    The agent stores the login; `accord ask`, editors and fleets then use it.
    """
    try:
        agent = find_agent(name, load_settings())
    except ValueError as error:
        raise AccordError(str(error)) from None
    return run_program(_login(agent, method))


async def _login(agent: NamedAgent, wanted: str | None) -> int:
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
    async with connect(
        agent.argv, env=agent.entry.env, initialize_timeout_s=_INITIALIZE_S
    ) as connected:
        try:
            await connected.new_session()
        except AuthRequired as error:
            raise AccordError(f"{agent.name} still requires a login: {error}") from None
