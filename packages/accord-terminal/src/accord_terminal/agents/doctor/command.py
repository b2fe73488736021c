"""`accord doctor`: starts the agents of this machine and says what works."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable

import click
import msgspec

from accord.errors import AccordError
from accord.local.run import run_program
from accord.transports.registry import is_url
from accord_terminal.agents.doctor.machine import Machine, look_at_machine
from accord_terminal.agents.doctor.probe import Probe, probe
from accord_terminal.agents.doctor.report import agent_lines, machine_lines, overview_lines
from accord_terminal.toolkit import settings
from accord_terminal.toolkit.agent_names import NamedAgent, complete_name, find_agent, named_agents

_AT_ONCE = 4


@click.command("doctor")
@click.argument("agent", required=False, shell_complete=complete_name)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for each agent.",
)
def command(agent: str | None, as_json: bool, timeout: float) -> int:
    """Check which agents start here, and show what is known about them.

    Each installed agent is started in an empty folder, initialized, asked to open a session, and
    stopped. It receives no prompt. With AGENT, a name or a command, only this agent is checked,
    and all details are shown.

    Exit status: 0 all checked agents work, 1 at least one does not, 2 usage error.
    """
    try:
        if agent is not None:
            return run_program(_one(agent, as_json, timeout))
        return run_program(_all(as_json, timeout))
    except (AccordError, ValueError) as error:
        raise click.UsageError(str(error)) from None


async def _one(name: str, as_json: bool, limit_s: float) -> int:
    found = await probe(find_agent(name, settings.load()), limit_s)
    if as_json:
        _print_json(await look_at_machine(), [found], [])
    else:
        _print(agent_lines(found, _columns()))
    return 0 if found.works else 1


async def _all(as_json: bool, limit_s: float) -> int:
    machine = await look_at_machine()
    known = settings.Settings() if machine.settings_error else settings.load()
    agents = named_agents(known)
    there = [agent for agent in agents.values() if _is_there(agent)]
    missing = [name for name in agents if agents[name] not in there]
    if not as_json:
        _print(machine_lines(machine, _columns()))
        click.echo("")
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(agent: NamedAgent) -> Probe:
        async with free:
            return await probe(agent, limit_s)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(agent)) for agent in there]
    probes = [task.result() for task in tasks]
    if as_json:
        _print_json(machine, probes, missing)
    else:
        _print(overview_lines(probes, missing, _columns()))
    works = machine.settings_error is None and all(found.works for found in probes)
    return 0 if works else 1


def _is_there(agent: NamedAgent) -> bool:
    """Return whether an agent should start: all but well-known ones that are not installed."""
    return agent.source != "well known" or is_url(agent.argv[0]) or agent.is_installed


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def _print_json(machine: Machine, probes: list[Probe], missing: list[str]) -> None:
    value = {"machine": machine, "agents": probes, "not_installed": missing}
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def _columns() -> int:
    return min(shutil.get_terminal_size().columns, 100)
