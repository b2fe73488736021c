"""The command lines of `accord fleet`: run, resume, status, show, report, export, import.

Each command imports what it needs when it is called, so that help is fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from accord.errors import AccordError
from accord_fleet.sandbox.settings import SandboxMode


def guard_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets them as `sandbox`, `read`, … of `GuardOptions`."""
    for option in reversed(
        (
            click.option(
                "--sandbox",
                is_flag=False,
                flag_value="models",
                default="off",
                type=click.Choice(get_args(SandboxMode)),
                help="Run agents and commands of graders in bubblewrap. `models` (if no value is "
                "given): the network leads to the models only.",
            ),
            click.option(
                "--sandbox-read",
                "read",
                multiple=True,
                metavar="PATH",
                help="A file or folder, such as a login in your home, that agents can read.",
            ),
            click.option(
                "--sandbox-allow",
                "allow_hosts",
                multiple=True,
                metavar="HOST",
                help="A host that agents reach: example.com, *.example.com or example.com:8443.",
            ),
            click.option(
                "--providers",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                metavar="FILE",
                help="providers.toml: addresses, rates and prices of providers of models.",
            ),
        )
    ):
        command = option(command)
    return command


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
    "processes, tokens, cost, tool_calls, changed_files; `none` is unlimited.",
)
@click.option(
    "--budget",
    metavar="LIMITS",
    help="The same for each attempt, as other commands take it: cost=2, tool_calls=50, time=10m.",
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
def run(**options: Any) -> int:
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
    import asyncio

    from accord_fleet.command.run_fleet import (
        GuardOptions,
        RunOptions,
        run_fleet,
        words_of_budget,
    )

    names = ("sandbox", "read", "allow_hosts", "providers")
    try:
        words = words_of_budget(options.pop("budget"))
    except ValueError as error:
        raise click.UsageError(f"--budget: {error}") from None
    options["limits"] = (*words, *options["limits"])
    guards = GuardOptions(**{name: options.pop(name) for name in names})
    try:
        return asyncio.run(run_fleet(RunOptions(guards=guards, **options)))
    except AccordError as error:
        raise click.ClickException(str(error)) from None


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
def resume(run: str, jobs: int | None, on: str | None, repeat_lost: bool, as_json: bool) -> int:
    """Run the attempts of RUN that have no result.

    RUN is the folder or address of a run that was stopped or has died. Cancelled attempts are run
    again. The run is refused if its tasks were changed, or if another process writes its results.

    Exit status: 0 every attempt of RUN finished, whatever the grader says; 1 error; 2 usage error;
    3 attempts failed or reached a limit, now or before; 130 stopped by Ctrl-C.
    """
    import asyncio

    from accord_fleet.command.run_fleet import resume_fleet

    try:
        return asyncio.run(
            resume_fleet(out=run, jobs=jobs, on=on, repeat_lost=repeat_lost, as_json=as_json)
        )
    except AccordError as error:
        raise click.ClickException(str(error)) from None


@click.command("status")
@click.argument("run", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--follow", is_flag=True, help="Print it every 5 seconds until the run has ended.")
def status(run: str, as_json: bool, follow: bool) -> int:
    """Show how far RUN is, also while it runs.

    RUN is the folder or address of a run.

    Exit status: 0 every attempt has a result, 1 error, 3 attempts remain.
    """
    from accord_fleet.command.show import show_status

    try:
        return show_status(run, as_json=as_json, follow=follow)
    except AccordError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{run} cannot be read: {error}") from None
    except KeyboardInterrupt:
        return 130


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
def show(
    run: str, task: str, agent: str | None, attempt: int | None, save: Path | None, as_json: bool
) -> int:
    """Show one attempt at TASK: its prompts, answer, changes, verdict, usage and messages.

    RUN is the folder or address of a run, TASK the id of a task. If the task has several attempts,
    they are listed; --agent and --attempt choose one. --json has texts that are shortened here.

    Exit status: 0 shown; 1 error; 3 the task has no result yet.
    """
    from accord_fleet.command.show import show_attempts

    try:
        return show_attempts(run, task, agent=agent, attempt=attempt, as_json=as_json, save=save)
    except AccordError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{run} cannot be read: {error}") from None


@click.command("report")
@click.argument("run")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page, one file that loads nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="Write everything as JSON on stdout.")
def report(run: str, html: Path | None, as_json: bool) -> int:
    """Show success, cost, time and failures of a run, and compare its agents.

    RUN is a folder or an address of fsspec. The run may still be in progress.

    Exit status: 0 shown or written, 1 error.
    """
    from accord_fleet.report.aggregate import read_report

    try:
        report = read_report(run)
    except AccordError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{run} cannot be read: {error}") from None
    if html is not None:
        from accord_fleet.report.page import report_page

        try:
            with html.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(report_page(report))
        except OSError as error:
            raise click.ClickException(f"{html}: {error.strerror or error}") from None
    if as_json:
        import msgspec

        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    elif html is None:
        from accord_fleet.report.terminal import print_report

        print_report(report)
    else:
        click.echo(f"{report.results:,} results: {html}")
    return 0


@click.command("export")
@click.argument("run", metavar="RUN")
@click.option(
    "--to",
    "kind",
    required=True,
    type=click.Choice(("inspect", "harbor")),
    help="The format: logs of inspect-ai, or the folder of a job of Harbor.",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where to write: a new folder, or an empty one.",
)
def export_run(run: str, kind: str, out: Path) -> int:
    """Write the results of RUN for the tools of an evaluator.

    --to inspect writes a log for each agent, which `inspect view --log-dir FOLDER` shows; it needs
    the package inspect-ai. --to harbor writes a job with a trial for each attempt, and its
    trajectory in ATIF.

    Exit status: 0 written, 1 error.
    """
    import asyncio

    from accord_fleet.dataset.dataset import Dataset

    try:
        if out.exists() and any(out.iterdir()):
            raise click.ClickException(f"{out} has files: choose a new folder")
        dataset = Dataset.open(run)
        if kind == "inspect":
            from accord_fleet.exchange.inspect_log import write_inspect_logs as write
        else:
            from accord_fleet.exchange.harbor_job import write_harbor_job as write
        for path in asyncio.run(write(dataset, out)):
            click.echo(path)
    except AccordError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{run} cannot be exported: {error}") from None
    return 0


@click.command("import")
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option("--out", required=True, metavar="RUN", help="The folder or address of the results.")
@click.option(
    "--score",
    metavar="NAME",
    help="The score that is the verdict, if a log has several; 1 or more passes.",
)
def import_run(logs: tuple[str, ...], out: str, score: str | None) -> int:
    """Make the run RUN of logs of evaluators, for `accord fleet report` and `show`.

    LOG is a log of inspect-ai (a file, or a folder of files .eval) or the folder of a job of
    Harbor. NAME=LOG names its agent. Several logs are compared in one run. A sample or trial
    without a result becomes a lost attempt, and a score that is not a number becomes an error of
    the grader.

    Exit status: 0 imported, 1 error.
    """
    import asyncio

    from accord_fleet.exchange.imports import import_logs
    from accord_trace.summary import counted

    try:
        done = asyncio.run(import_logs(logs, out, score=score))
    except AccordError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{out} was not written: {error}") from None
    for note in done.notes:
        click.echo(note, err=True)
    agents = ", ".join(done.agents)
    click.echo(
        f"{counted(done.results, 'result')} of {counted(done.tasks, 'task')} by {agents}: {out}"
    )
    return 0
