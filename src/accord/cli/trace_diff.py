"""`accord trace diff`: compares two recordings."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from textwrap import wrap

import click
import msgspec

from accord.cli.trace_options import CannotCompare, directions, first_option, show_problems
from accord.trace.diff import Difference, differences
from accord.trace.reading import TraceError
from accord.trace.trace import open_trace

__all__ = ("command",)

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_COLOURS = {"-": "red", "+": "green", "~": "yellow"}


@click.command("diff")
@click.argument("recording", metavar="FIRST", type=_FILE)
@click.argument("other", metavar="SECOND", type=_FILE)
@click.option("--strict", is_flag=True, help="Compare values too, not only their shape.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@first_option
def command(recording: Path, other: Path, strict: bool, as_json: bool, first: str) -> int:
    """Compare two recordings, message by message.

    Ids and times may differ, and the number of chunks of a message; without --strict also texts and
    numbers. Exit status: 0 same, 1 different, 2 cannot compare.
    """
    traces = [open_trace(path, first=directions[first]) for path in (recording, other)]
    found: list[Difference] = []
    try:
        first_records, other_records = (trace.with_damaged() for trace in traces)
        for difference in differences(first_records, other_records, strict=strict):
            found.append(difference)
            if not as_json:
                _show(difference)
    except TraceError as error:
        raise CannotCompare(str(error)) from None
    except BrokenPipeError:
        return 1  # `| head`
    if as_json:
        result = {"same": not found, "differences": msgspec.to_builtins(found)}
        click.echo(json.dumps(result, indent=2))
    for trace in traces:
        show_problems(trace.problems)
    return 1 if found else 0


def _show(difference: Difference) -> None:
    """Print a difference; at a terminal in lines that fit, which break between words."""
    lines = [f"{difference.sign} {difference.text}"]
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
        lines = wrap(lines[0], columns, subsequent_indent="    ", break_on_hyphens=False) or lines
    for line in lines:
        click.secho(line, fg=_COLOURS[difference.sign])
