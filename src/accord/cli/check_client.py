"""`accord check client`: an agent that a client under test starts, and that checks it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from accord.conformance.result import Result

__all__ = ("client",)

_BROKEN = 1
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
@click.option("--patience", type=float, default=30.0, help="Seconds for a person to answer.")
@click.option("--timeout", type=float, default=10.0, help="Seconds for the client to answer.")
@click.option(
    "--markdown", "markdown_file", type=_Out, metavar="FILE", help="Write Markdown as well."
)
@click.option("--html", "html_file", type=_Out, metavar="FILE", help="Write a page as well.")
@click.option("--junit", "junit_file", type=_Out, metavar="FILE", help="Write JUnit XML as well.")
@click.option("--trace", type=_Out, metavar="FILE", help="Write all frames as well.")
@click.option("--strict", is_flag=True, help="Fail on broken SHOULDs, too.")
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
    `check: list` to see what there is. The report is written after each scenario and when the
    client hangs up.
    """
    from accord.conformance.play.traces import trace_bytes
    from accord.conformance.pose.run import ClientRun
    from accord.conformance.pose.scenes import SCENARIOS
    from accord.transports.stdio import stdio

    def written(result: Result) -> None:
        from accord.cli.check_agent import report_text

        for name, path in {"json_file": report, **files}.items():
            if path is not None:
                _write(path, report_text(name, result).encode())
        if trace is not None:
            _write(trace, trace_bytes(run.line))

    async def serve() -> int:
        if sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, run.terminate)
        result = await run.run()
        return _BROKEN if result.broken(strict=strict) else 0

    run = ClientRun(
        stdio(give_back=False),
        SCENARIOS,
        versions=(1, 2) if spoken == "both" else (int(spoken),),
        answer=answer,
        login=login,
        answer_s=timeout,
        patience_s=patience,
        written=written,
    )
    return asyncio.run(serve())


def _write(path: Path, text: bytes) -> None:
    """Write a file at once, so that nobody reads half of it."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(text)
    part.replace(path)
