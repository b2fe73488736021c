"""`accord trace show`: a recording as one line per message."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from accord.cli.trace_options import directions, first_option, show_problems
from accord.text.excerpt import one_line
from accord.trace.filtering import Filter
from accord.trace.message_index import MessageIndex, MessageRow
from accord.trace.numbers import duration, size
from accord.trace.reading import TraceError
from accord.trace.records import Record
from accord.trace.summary import summary
from accord.trace.trace import open_traces

__all__ = ("command",)

_WIDTH = 100
_FOLLOW_S = 0.1  # between two looks at the file
_COLOURS = {"to_agent": "cyan", "to_client": "green"}


@click.command("show")
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="PATTERN",
    help="Only these methods, such as 'session/*', with their responses. Repeatable.",
)
@click.option(
    "--session", "sessions", multiple=True, metavar="ID", help="Only this session. Repeatable."
)
@click.option("--from", "sender", type=click.Choice(["client", "agent"]), help="Only this side.")
@click.option("--errors", is_flag=True, help="Only error responses and invalid frames.")
@click.option("--text", default="", help="Only messages that contain this text, in any case.")
@click.option("--follow", is_flag=True, help="Wait for more messages, until Ctrl+C.")
@click.option("--full", is_flag=True, help="Show messages in full length.")
@first_option
def command(
    recording: Path,
    methods: tuple[str, ...],
    sessions: tuple[str, ...],
    sender: str | None,
    errors: bool,
    text: str,
    follow: bool,
    full: bool,
    first: str,
) -> int:
    """Show a recording: one line per message, with the latency of each response.

    Each line begins with the number of the message in the recording, from 1, and its time.
    RECORDING is a file or a folder, whose folders are read, too. Recordings of other programs can
    be read: Rust's .jsons, journals of acpx, Thinkwell's, and logs with whole frames. Control
    characters are shown as escapes.
    """
    wanted = Filter(
        methods=methods,
        sessions=sessions,
        direction=None if sender is None else directions[sender],
        errors=errors,
        text=text,
    )
    shown = 0
    try:
        folders: list[str] = []  # that cannot be read
        traces = open_traces(recording, first=directions[first], problems=folders)
        show_problems(folders)
        if follow and len(traces) > 1:
            raise click.UsageError("--follow expects one recording, not a folder of them")
        for trace in traces:
            if len(traces) > 1:
                click.secho(one_line(trace.name), bold=True)
            with MessageIndex(trace.files, first=directions[first]) as index:
                for line in _lines(index, wanted, None if full else _WIDTH, follow):
                    click.echo(line)
                    shown += 1
                if not len(index) and not index.size:
                    next(iter(trace), None)  # says it as the other commands do
                show_problems(index.problems)
        if not shown:
            _say_none(methods, sessions, sender, errors, text)
    except TraceError as error:
        raise click.ClickException(str(error)) from None
    except BrokenPipeError:
        return 0  # `| head`
    except KeyboardInterrupt:
        if not follow:
            raise
    return 0


def _lines(index: MessageIndex, wanted: Filter, width: int | None, follow: bool) -> Iterator[str]:
    selection = index.selection(wanted)
    shown, is_complete = 0, False
    while not is_complete:
        is_complete = index.advance()
        while not selection.advance():
            pass
        for number in selection.rows[shown:]:
            yield _line(index.row(number), index.record(number), width)
        shown = len(selection.rows)
        if follow and is_complete:
            time.sleep(_FOLLOW_S)
            is_complete = False


def _line(row: MessageRow, record: Record, width: int | None) -> str:
    ends = f"{row.sender or '?'} → {row.receiver or '?'}"
    method = one_line(row.method or ("?" if row.kind == "response" else ""), 60)
    name = {"invalid": "not a message", "end": "end"}.get(row.kind, method)
    parts = [
        click.style(f"{row.number + 1:>4} {row.ts:>9.3f}", dim=True),
        click.style(f"{one_line(ends, 40):<16}", fg=_COLOURS[row.direction]),
        click.style(f"{name:<26}", bold=row.kind == "request", fg="red" if row.is_error else None),
    ]
    number = one_line(record.id_text, 40)
    parts.append(f"{'id ' + number if number else '':<6}")
    if row.kind == "response":
        took = "" if row.latency_s is None else f" {duration(row.latency_s)}"
        mark = "✗" if row.is_error else "✓"
        parts.append(click.style(f"{mark}{took:<9}", fg="red" if row.is_error else "green"))
    else:
        parts.append(" " * 10)
    parts.append(click.style(f"{size(row.bytes):>8}", dim=True))
    content = summary(record, width if width is not None else sys.maxsize)
    return " ".join((*parts, content)).rstrip()


def _say_none(
    methods: tuple[str, ...],
    sessions: tuple[str, ...],
    sender: str | None,
    errors: bool,
    text: str,
) -> None:
    """Say on stderr that there is nothing to show."""
    words = [f"--method {one}" for one in methods] + [f"--session {one}" for one in sessions]
    words += [f"--from {sender}"] if sender is not None else []
    words += ["--errors"] if errors else []
    words += [f"--text {text}"] if text else []
    found = f"no message matches {' '.join(words)}" if words else "there are no messages"
    click.echo(f"accord trace: {one_line(found)}", err=True)
