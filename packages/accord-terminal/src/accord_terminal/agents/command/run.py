"""`accord agents run`: becomes the process of an agent."""

from __future__ import annotations

import os
import subprocess
import sys

import click

from accord.errors import AccordError
from accord.transports.command_line import find_program
from accord.transports.registry import is_url
from accord_terminal.agents.command.options import reports_errors
from accord_terminal.toolkit.agent_names import (
    complete_name,
    load_installed,
    load_settings,
    named_agents,
)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", shell_complete=complete_name)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@reports_errors
def command(name: str, arguments: tuple[str, ...]) -> int:
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
