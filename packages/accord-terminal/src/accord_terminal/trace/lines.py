"""A message of a recording as one line with styles, for terminals."""

from __future__ import annotations

import sys

import click
from rich.cells import cell_len

from accord.text.excerpt import one_line
from accord_trace.message_index import MessageRow
from accord_trace.records import Record, component_place
from accord_trace.summary import duration, size, summary

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
