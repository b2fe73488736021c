"""`accord trace diff`: compares two recordings."""

from __future__ import annotations

from pathlib import Path

import click

from accord.trace.diff import differences
from accord.trace.reading import TraceError
from accord.trace.trace import open_trace

__all__ = ("command",)

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_COLOURS = {"-": "red", "+": "green", "~": "yellow"}


@click.command("diff")
@click.argument("first", type=_FILE)
@click.argument("second", type=_FILE)
@click.option("--strict", is_flag=True, help="Compare values too, not only their shape.")
def command(first: Path, second: Path, strict: bool) -> int:
    """Compare two recordings, message by message.

    Ids and times may differ, and the number of chunks of a message; without --strict also texts and
    numbers. The exit status is 1 if there are differences.
    """
    found = 0
    try:
        for difference in differences(open_trace(first), open_trace(second), strict=strict):
            found += 1
            line = f"{difference.sign} {difference.text}"
            click.secho(line, fg=_COLOURS[difference.sign])
    except TraceError as error:
        raise click.ClickException(str(error)) from None
    return 1 if found else 0
