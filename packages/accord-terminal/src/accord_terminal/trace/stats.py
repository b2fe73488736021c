"""`accord trace stats`: turns, latencies, tool calls, tokens and cost of a recording."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap

import click
import msgspec

from accord.text.excerpt import one_line
from accord_terminal.toolkit.text import table_lines, terminal_width
from accord_terminal.trace import (
    Unreadable,
    directions,
    first_option,
    open_folder,
    open_only_trace,
    output_text,
    refuse_recording,
    show_problems,
)
from accord_trace.reading import TraceError
from accord_trace.records import Direction
from accord_trace.stats import Stats, stats_of, stats_page
from accord_trace.summary import counted, duration, size

_MAX_ROWS = 30
_NARROW = 80  # below it, the least important columns are left out


def stats_table(stats: Stats, width: int) -> Iterator[str]:
    """Yield the lines of the tables; names lose what the width has no room for."""
    counts = (
        counted(stats.messages, "message") + f" in {duration(stats.seconds)}",
        counted(len(stats.sessions), "session"),
        counted(len(stats.turns), "turn"),
    )
    total = (
        f"{', '.join(counts)}; {size(stats.bytes_to_agent)} to the agent, "
        f"{size(stats.bytes_to_client)} to the client"
    )
    yield from wrap(total, width)
    if stats.invalid:
        which = "is not a message" if stats.invalid == 1 else "are not messages"
        yield f"{counted(stats.invalid, 'frame')} that {which}"
    yield from _methods(stats, width)
    yield from _turns(stats, width)
    yield from _tool_calls(stats, width)
    if stats.tokens:
        shown = ", ".join(f"{count} {name}" for name, count in stats.tokens.items())
        yield ""
        yield from wrap(f"Tokens: {shown}", width, subsequent_indent="  ")
    for currency, amount in stats.costs.items():
        yield f"Cost: {amount:.4g} {one_line(currency, 20)}"
    if stats.context:
        last = stats.context[-1]
        share = f" ({100 * last.used / last.size:.0f} %)" if last.size else ""
        yield f"Context: {last.used} of {last.size} tokens{share}"


def _methods(stats: Stats, width: int) -> Iterator[str]:
    rows = [
        (
            one_line(one.method, 40),
            "agent" if one.direction == "to_agent" else "client",
            str(one.count),
            str(one.errors or ""),
            str(one.unanswered or ""),
            size(one.bytes),
            "" if one.latency is None else duration(one.latency.median_s),
            "" if one.latency is None else duration(one.latency.p95_s),
            "" if one.latency is None else duration(one.latency.max_s),
        )
        for one in stats.methods
    ]
    names = ("Method", "To", "Count", "Errors", "Open", "Bytes", "Median", "95 %", "Max")
    spare = ("Bytes", "95 %") if width < _NARROW else ()
    yield from _table(names, rows, width, left=("To",), spare=spare, ends=True)


def _turns(stats: Stats, width: int) -> Iterator[str]:
    rows = [
        (
            str(number),
            one_line(turn.session or "", 20) if len(stats.sessions) > 1 else "",
            "" if turn.first_update_s is None else duration(turn.first_update_s),
            "" if turn.seconds is None else duration(turn.seconds),
            one_line(turn.stop_reason or "", 20),
            str(turn.updates),
            str(turn.tool_calls),
            _tokens(turn.tokens),
        )
        for number, turn in enumerate(stats.turns, 1)
    ]
    names = ("Turn", "Session", "First update", "Time", "Stop", "Updates", "Tools", "Tokens")
    spare = ("Updates",) if width < _NARROW else ()
    yield from _table(names, rows, width, name="Session", left=("Stop",), spare=spare)


def _tokens(tokens: Mapping[str, int]) -> str:
    """Return all tokens of a turn: the kinds are those of the whole recording, or in `--json`."""
    return str(tokens.get("total", sum(tokens.values()))) if tokens else ""


def _tool_calls(stats: Stats, width: int) -> Iterator[str]:
    rows = [
        (
            one_line(call.title or call.id, 40),
            one_line(call.kind, 12),
            one_line(call.status, 12),
            "" if call.seconds is None else duration(call.seconds),
        )
        for call in stats.tool_calls
    ]
    yield from _table(("Tool call", "Kind", "Status", "Time"), rows, width, left=("Kind", "Status"))


def _table(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    name: str | None = None,
    left: Sequence[str] = (),
    spare: Sequence[str] = (),
    ends: bool = False,
) -> Iterator[str]:
    """Yield a table after a blank line; nothing without rows.

    Columns that are empty or `spare` are left out. The column `name`, by default the first, loses
    what the width has no room for: of texts that begin alike it keeps the `ends`.
    """
    if not rows:
        return
    shown = rows[:_MAX_ROWS]
    used = [at for at, one in enumerate(names) if one not in spare and any(row[at] for row in rows)]
    head = [names[at] for at in used]
    long = [at for at, one in enumerate(head) if one == (name or names[0])]
    yield ""
    yield from table_lines(
        head,
        [[row[at] for at in used] for row in shown],
        width,
        names=long or (0,),
        left=[at for at, one in enumerate(head) if one in left],
        paths=long if ends else (),
    )
    if len(rows) > len(shown):
        yield f"… {len(rows) - len(shown)} more"


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
