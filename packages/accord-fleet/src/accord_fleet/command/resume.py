"""`accord fleet resume`."""

from __future__ import annotations

import asyncio

import click

from accord.errors import AccordError


@click.command("resume")
@click.argument("run", metavar="RUN")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    show_default="as the run began",
    help="Attempts at the same time.",
)
@click.option(
    "--on",
    show_default="as the run began",
    metavar="ADDRESS",
    help="Another engine, from now on: local, or a Ray cluster as for `accord fleet run`.",
)
@click.option(
    "--repeat-lost",
    is_flag=True,
    help="Run lost attempts again, too, although they may have changed something outside their "
    "workspace.",
)
@click.option("--json", "as_json", is_flag=True, help="Print progress as JSON lines.")
def command(run: str, jobs: int | None, on: str | None, repeat_lost: bool, as_json: bool) -> int:
    """Run the attempts of RUN that have no result.

    RUN is the folder or address of a run that was stopped or has died. Cancelled attempts are run
    again. The run is refused if its tasks were changed, or if another process writes its results.

    Exit status: 0 every attempt of RUN finished, whatever the grader says; 1 error; 2 usage error;
    3 attempts failed or reached a limit, now or before; 130 stopped by Ctrl-C.
    """
    from accord_fleet.command.run_fleet import resume_fleet

    try:
        return asyncio.run(
            resume_fleet(out=run, jobs=jobs, on=on, repeat_lost=repeat_lost, as_json=as_json)
        )
    except AccordError as error:
        raise click.ClickException(str(error)) from None
