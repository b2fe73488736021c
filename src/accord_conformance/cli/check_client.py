"""`accord check client`: an agent that a client under test starts, and that checks it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accord_conformance.cli.report_files import check_writable, write_atomically

if TYPE_CHECKING:
    from accord_conformance.reports.run_result import RunResult

__all__ = ("client",)

_NOT_WRITTEN = 2
_HUNG_UP = 129
_FORMATS = {
    "--report": "json_file",
    "--junit": "junit_file",
    "--markdown": "markdown_file",
    "--html": "html_file",
}
_Seconds = click.FloatRange(0, min_open=True)
_Out = click.Path(dir_okay=False, path_type=Path)


@click.command("client")
@click.option("--report", type=_Out, required=True, metavar="FILE", help="Write all as JSON.")
@click.option(
    "--version",
    "spoken",
    type=click.Choice(["1", "2", "both"]),
    default="both",
    help="The versions to speak; else what the client asks for.",
)
@click.option("--answer", type=int, metavar="N", help="Answer with a version nobody speaks.")
@click.option("--login", is_flag=True, help="Serve nobody who has not logged in.")
@click.option("--patience", type=_Seconds, default=30.0, help="Seconds for a person to answer.")
@click.option("--timeout", type=_Seconds, default=10.0, help="Seconds for the client to answer.")
@click.option(
    "--markdown", "markdown_file", type=_Out, metavar="FILE", help="Write Markdown as well."
)
@click.option("--html", "html_file", type=_Out, metavar="FILE", help="Write a page as well.")
@click.option("--junit", "junit_file", type=_Out, metavar="FILE", help="Write JUnit XML as well.")
@click.option("--trace", type=_Out, metavar="FILE", help="Write all frames as well.")
@click.option("--strict", is_flag=True, help="Fail on warnings and advice, too.")
def client(
    report: Path,
    spoken: str,
    answer: int | None,
    login: bool,
    patience: float,
    timeout: float,
    trace: Path | None,
    strict: bool,
    **files: Path | None,
) -> int:
    """Be an agent that checks the client which starts it.

    Configure your client to start this command, open a session, and send `check: all`, or
    `check: list` to see what there is. The report is written every second in which something
    comes, after each scenario and when the client hangs up. `{pid}` in the name of a file becomes
    the number of this process: a client may start several.

    The exit status is 1 when the client breaks a MUST of the schema or of the text of the protocol,
    and 70 after an error in the kit.
    """
    from accord.text.excerpt import visible
    from accord.transports.stdio import stdio
    from accord_conformance.cli.check_agent import report_bytes
    from accord_conformance.client.run import ClientRun
    from accord_conformance.client.scenarios import client_scenarios
    from accord_conformance.harness.traces import trace_bytes
    from accord_conformance.reports.run_result import verdict

    named = {"--report": report, "--trace": trace}
    named |= {f"--{name.removesuffix('_file')}": path for name, path in files.items()}
    outputs = {name: _own(path) for name, path in named.items() if path is not None}
    check_writable(outputs)
    if sys.stdin.isatty():
        click.echo("This is an agent: have the client under test start it.", err=True)
    told: dict[str, str] = {}

    def written(result: RunResult) -> None:
        result.strict = strict
        for name, path in outputs.items():
            if name == "--trace":
                data = trace_bytes(run.connection)
            else:
                data = report_bytes(_FORMATS[name], result)
            try:
                write_atomically(path, data, private=name == "--trace")
            except OSError as error:
                told[name] = f"{name}: cannot write {path}: {error.strerror}"
            else:
                told.pop(name, None)

    async def serve() -> int:
        if sys.platform != "win32":
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            loop.add_signal_handler(signal.SIGTERM, run.terminate)
            loop.add_signal_handler(signal.SIGHUP, task.cancel)
        result = await run.run()
        result.strict = strict
        for fault in result.kit_errors:
            click.echo(f"accord check client: error in the kit:\n{visible(fault)}", err=True)
        return verdict(result).status

    run = ClientRun(
        stdio(restore=False),
        client_scenarios(),
        versions=(1, 2) if spoken == "both" else (int(spoken),),
        answer=answer,
        login=login,
        answer_s=timeout,
        user_timeout_s=patience,
        on_result=written,
    )
    try:
        status = asyncio.run(serve())
    except asyncio.CancelledError:
        status = _HUNG_UP
    for line in told.values():
        click.echo(f"accord check client: {line}", err=True)
    return _NOT_WRITTEN if told else status


def _own(path: Path) -> Path:
    """Return the path of this process alone, if the user wants one."""
    return path.with_name(path.name.replace("{pid}", str(os.getpid())))
