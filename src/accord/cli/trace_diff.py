"""`accord trace diff`: compares two recordings."""

from __future__ import annotations

import json
from pathlib import Path

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
        for difference in differences(*traces, strict=strict):
            found.append(difference)
            if not as_json:
                line = f"{difference.sign} {difference.text}"
                click.secho(line, fg=_COLOURS[difference.sign])
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
