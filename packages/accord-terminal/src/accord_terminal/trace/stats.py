"""`accord trace stats`: turns, latencies, tool calls, tokens and cost of a recording."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from accord.text.excerpt import one_line
from accord_terminal.toolkit.text import terminal_width
from accord_terminal.trace.options import (
    Unreadable,
    directions,
    first_option,
    open_folder,
    open_only_trace,
    output_text,
    refuse_recording,
    show_problems,
)
from accord_terminal.trace.stats_table import stats_table
from accord_trace.reading import TraceError
from accord_trace.records import Direction
from accord_trace.stats import Stats, stats_of, stats_page


@click.command("stats")
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
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
    the client are counted. RECORDING is a file, or a folder, whose recordings follow each other;
    --html expects one.
    """
    if page is None and recording.is_dir():
        return _of_folder(recording, as_json, directions[first])
    try:
        trace = open_only_trace(recording, first=directions[first])
        if page is not None:
            refuse_recording("--html", page, trace)
        found = stats_of(trace)
    except TraceError as error:
        raise Unreadable(str(error)) from None
    if page is not None:
        output_text(page, stats_page(found, os.fspath(recording.name)))
    if as_json:
        click.echo(_json(found))
    elif page is None:
        _print(found)
    show_problems(trace.problems)
    return 0


def _of_folder(folder: Path, as_json: bool, first: Direction) -> int:
    """Show each recording of a folder; 2 if one of them cannot be read."""
    status, found = 0, dict[str, Stats]()
    try:
        for trace in open_folder(folder, first=first):
            try:
                found[trace.name] = stats = stats_of(trace)
            except TraceError as error:
                click.echo(f"accord trace: {error}", err=True)
                status = Unreadable.exit_code
                continue
            if not as_json:
                click.secho(one_line(trace.name), bold=True)
                _print(stats)
            show_problems(trace.problems)
    except TraceError as error:
        raise Unreadable(str(error)) from None
    if as_json:
        click.echo(_json(found))
    return status


def _print(stats: Stats) -> None:
    for line in stats_table(stats, terminal_width()):
        click.echo(line)


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
