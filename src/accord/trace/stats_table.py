"""Statistics as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accord.text.excerpt import one_line
from accord.trace.numbers import counted, duration, size
from accord.trace.stats import Stats

__all__ = ("stats_table",)

_MAX_ROWS = 30


def stats_table(stats: Stats) -> Iterator[str]:
    """Yield the lines of the tables."""
    counts = (
        counted(stats.messages, "message") + f" in {duration(stats.seconds)}",
        counted(len(stats.sessions), "session"),
        counted(len(stats.turns), "turn"),
    )
    yield (
        f"{', '.join(counts)}; {size(stats.bytes_to_agent)} to the agent, "
        f"{size(stats.bytes_to_client)} to the client"
    )
    if stats.invalid:
        yield f"{stats.invalid} frames that are not messages"
    yield from _methods(stats)
    yield from _turns(stats)
    yield from _tool_calls(stats)
    if stats.tokens:
        shown = ", ".join(f"{count} {name}" for name, count in stats.tokens.items())
        yield from ("", f"Tokens: {shown}")
    for currency, amount in stats.costs.items():
        yield f"Cost: {amount:.4g} {one_line(currency, 20)}"
    if stats.context:
        last = stats.context[-1]
        share = f" ({100 * last.used / last.size:.0f} %)" if last.size else ""
        yield f"Context: {last.used} of {last.size} tokens{share}"


def _methods(stats: Stats) -> Iterator[str]:
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
    yield from _table(names, rows)


def _turns(stats: Stats) -> Iterator[str]:
    rows = [
        (
            str(number),
            one_line(turn.session or "", 20),
            "" if turn.first_update_s is None else duration(turn.first_update_s),
            "" if turn.seconds is None else duration(turn.seconds),
            one_line(turn.stop_reason or "", 20),
            str(turn.updates),
            str(turn.tool_calls),
            " ".join(f"{count} {name}" for name, count in turn.tokens.items()),
        )
        for number, turn in enumerate(stats.turns, 1)
    ]
    names = ("Turn", "Session", "First update", "Time", "Stop", "Updates", "Tools", "Tokens")
    yield from _table(names, rows)


def _tool_calls(stats: Stats) -> Iterator[str]:
    rows = [
        (
            one_line(call.title or call.id, 40),
            one_line(call.kind, 12),
            one_line(call.status, 12),
            "" if call.seconds is None else duration(call.seconds),
        )
        for call in stats.tool_calls
    ]
    yield from _table(("Tool call", "Kind", "Status", "Time"), rows)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table after a blank line; nothing without rows."""
    if not rows:
        return
    shown = rows[:_MAX_ROWS]
    widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]
    yield ""
    for row in (names, *shown):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()
    if len(rows) > len(shown):
        yield f"… {len(rows) - len(shown)} more"
