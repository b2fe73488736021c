"""`accord fleet run`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import click

from accord.errors import AccordError
from accord_fleet.command.guard_options import GuardOptions, guard_options


@click.command("run")
@click.argument("tasks")
@click.option(
    "--agent",
    "agents",
    multiple=True,
    required=True,
    metavar="AGENT",
    help="A command, NAME=COMMAND, a name of `accord agents`, a URL, or a file agents.toml. "
    "Repeat it to compare agents.",
)
@click.option(
    "--defaults",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A TOML file with the fields that all tasks have in common.",
)
@click.option("--out", required=True, metavar="RUN", help="The folder or address of the results.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="processors of this machine",
    help="Attempts at the same time.",
)
@click.option(
    "--attempts",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Attempts of each agent at each task.",
)
@click.option(
    "--on",
    default="local",
    show_default="this machine",
    metavar="ADDRESS",
    help="A Ray cluster: ray://HOST:10001, HOST:6379, or ray for the one that RAY_ADDRESS names or "
    "a new one on this machine.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=VALUE",
    help="For tasks without their own: turn_s, wall_s, output_bytes, memory_bytes (2g), "
    "processes, tokens, cost; `none` is unlimited.",
)
@click.option("--allow", multiple=True, metavar="RULE", help="Allow what matches: edit, execute:*.")
@click.option("--deny", multiple=True, metavar="RULE", help="Reject what matches, before --allow.")
@guard_options
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="NAME",
    help="A further environment variable whose value is never stored.",
)
@click.option(
    "--first",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run the first N tasks only, to try before an expensive run. All tasks are checked.",
)
@click.option("--check", is_flag=True, help="Check everything, and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Write progress as JSON lines on stdout.")
def command(**options: Any) -> int:
    """Give tasks to agents, and store every result in RUN.

    TASKS is a file .jsonl, .csv, .tsv or .parquet, or file.py:name. All tasks are checked before
    the first one is run.

    Ctrl-C starts no further attempts, and lets those that run continue. A second Ctrl-C cancels
    their turns, and a third one ends everything at once. `accord fleet resume RUN` runs what has no
    result, and what was cancelled.

    --check reads and checks the tasks, their workspaces and graders, the agents and RUN. It asks
    neither agents nor clusters nor repositories at other addresses.

    Exit status: 0 every attempt finished, whatever the grader says, or --check found nothing; 1 the
    run did not start, or an error stopped it; 2 usage error; 3 attempts failed or reached a limit;
    130 stopped by Ctrl-C.
    """
    from accord_fleet.command.run_fleet import RunOptions, run_fleet

    names = ("sandbox", "read", "allow_hosts", "providers")
    guards = GuardOptions(**{name: options.pop(name) for name in names})
    try:
        return asyncio.run(run_fleet(RunOptions(guards=guards, **options)))
    except AccordError as error:
        raise click.ClickException(str(error)) from None
