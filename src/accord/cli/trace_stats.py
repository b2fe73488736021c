"""`accord trace stats`: turns, latencies, tool calls, tokens and cost of a recording."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from accord.cli.columns import terminal_width
from accord.cli.trace_options import (
    directions,
    first_option,
    output_text,
    refuse_recording,
    show_problems,
)
from accord.cli.trace_stats_table import stats_table
from accord.trace.reading import TraceError
from accord.trace.stats import stats_of
from accord.trace.stats_page import stats_page
from accord.trace.trace import open_trace

__all__ = ("command",)


@click.command("stats")
@click.argument("recording", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON; times are in seconds.")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a page with charts; it loads nothing from elsewhere.",
)
@first_option
def command(recording: Path, as_json: bool, page: Path | None, first: str) -> int:
    """Show turns, latencies, sizes, tool calls, tokens and cost of a recording.

    Tokens and cost are those that the agent reports. Of a chain of proxies, only the messages of
    the client are counted.
    """
    try:
        trace = open_trace(recording, first=directions[first])
        if page is not None:
            refuse_recording("--html", page, trace)
        found = stats_of(trace)
    except TraceError as error:
        raise click.ClickException(str(error)) from None
    if page is not None:
        output_text(page, stats_page(found, os.fspath(recording.name)))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    elif page is None:
        for line in stats_table(found, terminal_width()):
            click.echo(line)
    show_problems(trace.problems)
    return 0
