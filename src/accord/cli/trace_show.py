"""`accord trace show`: a recording as one line per message."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from accord.cli.trace_options import directions, first_option, show_problems
from accord.text.excerpt import one_line
from accord.trace.filtering import Filter, Selected, select
from accord.trace.index import can_be_indexed, open_index
from accord.trace.numbers import duration, size
from accord.trace.reading import TraceError
from accord.trace.summary import summary
from accord.trace.trace import Trace, open_traces

__all__ = ("command",)

_WIDTH = 100
_INDEXED_BYTES = 32 * 1024 * 1024  # above it, an index is made next to the recording


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
@click.option("--full", is_flag=True, help="Show messages in full length.")
@first_option
def command(
    recording: Path,
    methods: tuple[str, ...],
    sessions: tuple[str, ...],
    sender: str | None,
    errors: bool,
    text: str,
    full: bool,
    first: str,
) -> int:
    """Show a recording: one line per message, with the latency of each response.

    RECORDING is a file or a folder. Recordings of other programs can be read too: Rust's .jsons,
    journals of acpx, Thinkwell's, and logs with whole frames. Control characters are shown as
    escapes.
    """
    wanted = Filter(
        methods=methods,
        sessions=sessions,
        direction=None if sender is None else directions[sender],
        errors=errors,
        text=text,
    )
    try:
        traces = open_traces(recording, first=directions[first])
        for trace in traces:
            if len(traces) > 1:
                click.secho(one_line(trace.name), bold=True)
            for line in _lines(trace, wanted, None if full else _WIDTH):
                click.echo(line)
            show_problems(trace)
    except TraceError as error:
        raise click.ClickException(str(error)) from None
    except BrokenPipeError:
        return 0  # `| head`
    return 0


def _lines(trace: Trace, wanted: Filter, width: int | None) -> Iterator[str]:
    if _needs_index(trace, wanted):
        with open_index(trace) as index:
            for selected in index.select(wanted):
                yield _line(selected, width)
        return
    for selected in select(trace, wanted):
        yield _line(selected, width)


def _needs_index(trace: Trace, wanted: Filter) -> bool:
    """Return whether a large recording would be read for few messages."""
    if not (wanted.methods or wanted.sessions or wanted.errors):
        return False
    is_large = sum(file.stat().st_size for file in trace.files) > _INDEXED_BYTES
    return is_large and can_be_indexed(trace)


def _line(selected: Selected, width: int | None) -> str:
    record = selected.record
    is_to_agent = record.dir == "to_agent"
    ends = f"{record.sender or '?'} → {record.receiver or '?'}"
    method = one_line(selected.method or ("?" if record.type == "response" else ""), 60)
    name = {"invalid": "not a message", "end": "end"}.get(record.type, method)
    parts = [
        click.style(f"{record.ts:>9.3f}", dim=True),
        click.style(f"{one_line(ends, 40):<16}", fg="cyan" if is_to_agent else "green"),
        click.style(
            f"{name:<26}", bold=record.type == "request", fg="red" if _failed(selected) else None
        ),
    ]
    number = one_line(record.id_text, 40)
    parts.append(f"{'#' + number if number else '':<5}")
    if record.type == "response":
        took = "" if selected.answered is None else f" {duration(selected.answered.seconds)}"
        mark = "✗" if record.is_error else "✓"
        parts.append(click.style(f"{mark}{took:<9}", fg="red" if record.is_error else "green"))
    else:
        parts.append(" " * 10)
    parts.append(click.style(f"{size(record.bytes):>8}", dim=True))
    content = summary(record, width if width is not None else sys.maxsize)
    return " ".join((*parts, content)).rstrip()


def _failed(selected: Selected) -> bool:
    return selected.record.is_error or selected.record.type == "invalid"
