"""`accord trace diff`: compares two recordings."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from textwrap import wrap

import click
import msgspec

from accord.text.excerpt import one_line
from accord_terminal.trace import (
    Unreadable,
    directions,
    first_option,
    open_folder,
    show_problems,
)
from accord_trace.diff import Difference, differences
from accord_trace.reading import Trace, TraceError, open_trace
from accord_trace.records import Direction

_PATH = click.Path(exists=True, path_type=Path)
_NOT_COMPARED = "texts and numbers were not compared: --strict compares them, too"
_COLOURS = {"-": "red", "+": "green", "~": "yellow"}


@click.command("diff")
@click.argument("recording", metavar="FIRST", type=_PATH)
@click.argument("other", metavar="SECOND", type=_PATH)
@click.option("--strict", is_flag=True, help="Compare values too, not only their shape.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@first_option
def command(recording: Path, other: Path, strict: bool, as_json: bool, first: str) -> int:
    """Compare two recordings, or those of two folders by name, message by message.

    Ids and times may differ, and the number of chunks of a message; without --strict also texts and
    numbers. Exit status: 0 same, 1 different, 2 cannot compare.
    """
    results: list[dict[str, object]] = []
    try:
        pairs = _pairs(recording, other, directions[first])
        for traces in pairs:
            name = next(trace.name for trace in traces if trace is not None)
            if len(pairs) > 1 and not as_json:
                click.secho(one_line(name), bold=True)
            found = _compare(traces, recording, other, strict=strict, shown=not as_json)
            results.append(
                {"name": name, "same": not found, "differences": msgspec.to_builtins(found)}
            )
    except TraceError as error:
        raise Unreadable(str(error)) from None
    except BrokenPipeError:
        return 1  # `| head`
    if as_json:
        same = all(result["same"] for result in results)
        if recording.is_dir():
            whole: dict[str, object] = {"same": same, "recordings": results}
        else:
            whole = {"same": same, "differences": results[0]["differences"]}
        click.echo(json.dumps({**whole, "strict": strict}, indent=2))
    elif not strict:
        click.echo(f"accord trace diff: {_NOT_COMPARED}", err=True)
    return 0 if all(result["same"] for result in results) else 1


def _pairs(
    recording: Path, other: Path, first: Direction
) -> list[tuple[Trace | None, Trace | None]]:
    """Return the recordings to compare; None where one of two folders has no such name."""
    if recording.is_dir() != other.is_dir():
        folder, file = (recording, other) if recording.is_dir() else (other, recording)
        raise Unreadable(
            f"Expected two recordings or two folders, got the folder {folder} and the file {file}"
        )
    if not recording.is_dir():
        return [(open_trace(recording, first=first), open_trace(other, first=first))]
    sides = [
        {trace.name: trace for trace in open_folder(path, first=first)}
        for path in (recording, other)
    ]
    return [(sides[0].get(name), sides[1].get(name)) for name in sorted(sides[0] | sides[1])]


def _compare(
    traces: tuple[Trace | None, Trace | None],
    recording: Path,
    other: Path,
    *,
    strict: bool,
    shown: bool,
) -> list[Difference]:
    """Return the differences of two recordings, and print them."""
    before, after = traces
    if before is None or after is None:
        sign, folder = ("-", recording) if after is None else ("+", other)
        missing = Difference(sign, f"the recording is only in {folder}")
        if shown:
            _show(missing)
        return [missing]
    found: list[Difference] = []
    for difference in differences(before.with_damaged(), after.with_damaged(), strict=strict):
        found.append(difference)
        if shown:
            _show(difference)
    show_problems([*before.problems, *after.problems])
    return found


def _show(difference: Difference) -> None:
    """Print a difference; at a terminal in lines that fit, which break between words."""
    lines = [f"{difference.sign} {difference.text}"]
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns
        lines = wrap(lines[0], columns, subsequent_indent="    ", break_on_hyphens=False) or lines
    for line in lines:
        click.secho(line, fg=_COLOURS[difference.sign])
