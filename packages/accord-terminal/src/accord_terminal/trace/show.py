"""`accord trace show`: a recording as one line per message, or the whole of some messages."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
from rich.cells import cell_len

from accord.text.excerpt import one_line
from accord_terminal.trace import Unreadable, directions, first_option, show_problems
from accord_trace.message_index import MessageIndex, MessageRow
from accord_trace.reading import Trace, TraceError, open_trace, open_traces
from accord_trace.records import Direction, Record, component_place
from accord_trace.selection import Filter
from accord_trace.summary import duration, size, summary
from accord_trace.trace_file import TraceReplaced

_NARROW = 70  # columns from which on latencies are shown
_COLOURS = {"to_agent": "cyan", "to_client": "green"}


def whole_line(row: MessageRow, record: Record, width: int | None) -> str:
    """Return a line with everything; the content has at most this width."""
    ends = f"{row.sender or '?'} → {row.receiver or '?'}"
    parts = [
        click.style(f"{row.number + 1:>4} {row.ts:>9.3f}", dim=True),
        click.style(f"{one_line(ends, 40):<16}", fg=_COLOURS[row.direction]),
        _method(row, 26, 60),
    ]
    number = one_line(record.id_text, 40)
    parts.append(f"{'id ' + number if number else '':<6}")
    parts.append(_answered(row, 9) if row.kind == "response" else " " * 10)
    parts.append(click.style(f"{size(row.bytes):>8}", dim=True))
    content = summary(record, width if width is not None else sys.maxsize)
    return " ".join((*parts, content)).rstrip()


def short_line(row: MessageRow, record: Record, columns: int, *, with_details: bool = False) -> str:
    """Return a line that is not wider than a terminal; details are the size and the session."""
    arrow = "→" if row.direction == "to_agent" else "←"
    if {row.sender, row.receiver} != {"Client", "Agent"}:  # in a chain: C→P0, P0→A
        left, right = sorted((row.sender, row.receiver), key=component_place)
        arrow = f"{_initial(left):>2}{arrow}{_initial(right):<2}"
    method_width = 26 if columns >= _NARROW else 18
    parts = [
        click.style(f"{row.number + 1:>4} {row.ts:>7.2f}", dim=True),
        click.style(arrow, fg=_COLOURS[row.direction]),
        _method(row, method_width, method_width),
    ]
    if columns >= _NARROW:
        width = 9 if with_details else 7
        parts.append(_answered(row, width) if row.kind == "response" else " " * (width + 1))
    if with_details:
        parts.append(click.style(f"{size(row.bytes):>8}", dim=True))
        parts.append(click.style(f"{one_line(row.session or '', 60)[-8:]:<8}", dim=True))
    line = " ".join(parts)
    room = columns - len(click.unstyle(line)) - 1
    content = summary(record, room) if room > 3 else ""
    while cell_len(content) > room > 3:
        content = f"{content[:-2]}…"
    return f"{line} {content}".rstrip()


def _initial(component: str) -> str:
    """Return `P0` for `Proxy(0)`."""
    digits = "".join(filter(str.isdigit, component))
    return one_line(component[:1] + digits, 4) or "?"


def _method(row: MessageRow, width: int, max_length: int) -> str:
    method = one_line(row.method or ("?" if row.kind == "response" else ""), max_length)
    name = {"invalid": "not a message", "end": "end"}.get(row.kind, method)
    colour = "red" if row.is_error else None
    return click.style(f"{name:<{width}}", bold=row.kind == "request", fg=colour)


def _answered(row: MessageRow, width: int) -> str:
    took = "" if row.latency_s is None else f" {duration(row.latency_s)}"
    mark = "✗" if row.is_error else "✓"
    return click.style(f"{mark}{took:<{width}}", fg="red" if row.is_error else "green")


_WIDTH = 100  # of what a message says, at most
_WIDE = 185  # columns of a terminal in which all fits in one line
_FOLLOW_S = 0.1  # between two looks at the file


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
    characters are shown as escapes. On a terminal, lines end at its width, unless --full is set.
    """
    wanted = Filter(
        methods=methods,
        sessions=sessions,
        direction=None if sender is None else directions[sender],
        errors=errors,
        text=text,
    )
    shown, status = 0, 0
    try:
        folders: list[str] = []  # that cannot be read
        traces = open_traces(recording, first=directions[first], problems=folders)
        show_problems(folders)
        if follow and len(traces) > 1:
            raise click.UsageError("--follow expects one recording, not a folder of them")
        for trace in traces:
            if len(traces) > 1:
                click.secho(one_line(trace.name), bold=True)
            width = None if full else _WIDTH
            try:
                shown += _show(trace, wanted, width, directions[first], follow=follow)
            except TraceError as error:
                if len(traces) == 1:
                    raise
                click.echo(f"accord trace: {error}", err=True)
                status = Unreadable.exit_code
        if not shown:
            _say_none(methods, sessions, sender, errors, text)
    except TraceError as error:
        raise Unreadable(str(error)) from None
    except BrokenPipeError:
        return 0  # `| head`
    except KeyboardInterrupt:
        if not follow:
            raise
    return status


def _show(
    trace: Trace, wanted: Filter, width: int | None, first: Direction, *, follow: bool
) -> int:
    """Print the lines of a recording; return how many."""
    shown = 0
    while True:
        with MessageIndex(trace.files, first=first) as index:
            try:
                for line in _lines(index, wanted, width, follow):
                    click.echo(line)
                    shown += 1
            except TraceReplaced as error:
                if not follow:
                    raise
                click.echo(f"accord trace: {error}: this is the new one", err=True)
                trace = open_trace(trace.files[0], first=first)
                continue
            if not len(index) and not index.size:
                next(iter(trace), None)  # says it as the other commands do
            show_problems(index.problems)
            return shown


def _lines(index: MessageIndex, wanted: Filter, width: int | None, follow: bool) -> Iterator[str]:
    selection = index.selection(wanted)
    shown, is_complete = 0, False
    while not is_complete:
        is_complete = index.advance()
        while not selection.advance():
            pass
        for number in selection.rows[shown:]:
            row, record = index.row(number), index.record(number)
            columns = _columns() if width is not None else None
            yield (
                whole_line(row, record, width)
                if columns is None
                else short_line(row, record, columns)
            )
        shown = len(selection.rows)
        if follow and is_complete:
            time.sleep(_FOLLOW_S)
            is_complete = False


def _columns() -> int | None:
    """Return the width of the terminal if lines do not fit in it; None without a terminal."""
    if not sys.stdout.isatty():
        return None
    columns = shutil.get_terminal_size().columns
    return columns if columns < _WIDE else None


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
