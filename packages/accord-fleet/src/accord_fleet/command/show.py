"""`accord fleet show`."""

from __future__ import annotations

from pathlib import Path

import click

from accord.errors import AccordError


@click.command("show")
@click.argument("run", metavar="RUN")
@click.argument("task", metavar="TASK")
@click.option("--agent", metavar="NAME", help="The agent, if several have worked on the task.")
@click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="The number of the attempt."
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the recording of the attempt to FILE instead.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the task and its results as JSON.")
def command(
    run: str, task: str, agent: str | None, attempt: int | None, save: Path | None, as_json: bool
) -> int:
    """Show one attempt at TASK: its prompts, answer, changes, verdict, usage and messages.

    RUN is the folder or address of a run, TASK the id of a task. If the task has several attempts,
    they are listed; --agent and --attempt choose one. --json has texts that are shortened here.

    Exit status: 0 shown; 1 error; 3 the task has no result yet.
    """
    from accord_fleet.command.show_attempt import show_attempts

    try:
        return show_attempts(run, task, agent=agent, attempt=attempt, as_json=as_json, save=save)
    except AccordError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{run} cannot be read: {error}") from None
