"""Statistics as one self-contained HTML page with charts; nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from accord.text.excerpt import one_line
from accord_trace.numbers import counted, duration, size
from accord_trace.stats import ContextPoint, Stats

_STYLE = """
:root { color-scheme: light dark; --bar: #4069c4; --other: #b26a00 }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
.wide { overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #8884 }
td { vertical-align: top }
th:first-child, td:first-child { padding-left: 0; min-width: 8rem; overflow-wrap: anywhere }
td + td, th { white-space: nowrap }
.number { text-align: right; font-variant-numeric: tabular-nums }
figure { margin: 1rem 0 }
svg { display: block; width: 100%; height: 8rem; background: #8881 }
figcaption { font-size: .875rem }
.bar { fill: var(--bar) } .other { fill: var(--other) }
@media (max-width: 30rem) {
  table { font-size: .8125rem }
  th, td { padding-left: .3rem; padding-right: .3rem }
}
.line { fill: none; stroke: var(--bar); stroke-width: 2; vector-effect: non-scaling-stroke }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_WIDTH, _HEIGHT = 800, 100  # of charts, in their own units: they fill the width of the page
_MAX_BARS = 400


def stats_page(stats: Stats, title: str) -> str:
    """Return the page; all texts of agents are escaped."""
    return "\n".join(_parts(stats, _text(title)))


def _parts(stats: Stats, title: str) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
    yield (
        f"<p>{counted(stats.messages, 'message')} in {duration(stats.seconds)}, "
        f"{counted(len(stats.sessions), 'session')}, {counted(len(stats.turns), 'turn')}; "
        f"{size(stats.bytes_to_agent)} to the agent, {size(stats.bytes_to_client)} to the client"
        "</p>"
    )
    ended = [turn for turn in stats.turns if turn.seconds is not None]
    if ended:
        yield "<h2>Turns</h2>"
        failed = [turn.stop_reason == "error" for turn in ended]
        times = [turn.seconds or 0.0 for turn in ended]
        yield _bars("Time of each turn", times, duration, failed)
        waits = [turn.first_update_s or 0.0 for turn in ended]
        yield _bars("Time to the first update of each turn", waits, duration)
        tokens = [float(turn.tokens.get("total", sum(turn.tokens.values()))) for turn in ended]
        if any(tokens):
            yield _bars("Tokens of each turn", tokens, _count)
    if stats.context:
        yield "<h2>Context</h2>"
        yield _context(stats.context)
    yield "<h2>Methods</h2>" + _table(
        ("Method", "To", "Count", "Errors", "Bytes", "Median", "95 %", "Max"),
        [
            (
                one.method,
                "agent" if one.direction == "to_agent" else "client",
                str(one.count),
                str(one.errors),
                size(one.bytes),
                *(
                    ("", "", "")
                    if one.latency is None
                    else map(duration, (one.latency.median_s, one.latency.p95_s, one.latency.max_s))
                ),
            )
            for one in stats.methods
        ],
        texts=2,
    )
    if stats.tool_calls:
        yield "<h2>Tool calls</h2>" + _table(
            ("Tool call", "Kind", "Status", "Time"),
            [
                (
                    call.title or call.id,
                    call.kind,
                    call.status,
                    "" if call.seconds is None else duration(call.seconds),
                )
                for call in stats.tool_calls
            ],
            texts=3,
        )
    totals = [f"{count:,} {_text(name)} tokens" for name, count in stats.tokens.items()]
    totals += [f"{amount:.4g} {_text(currency)}" for currency, amount in stats.costs.items()]
    if totals:
        yield f"<h2>Tokens and cost</h2><p>{', '.join(totals)}</p>"
    yield "</body></html>"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int) -> str:
    """Return a table; the first columns have texts, the others numbers."""

    def cells(kind: str, row: Sequence[str]) -> str:
        starts = [
            f"<{kind}>" if at < texts else f'<{kind} class="number">' for at in range(len(row))
        ]
        pairs = zip(starts, row, strict=True)
        return "".join(f"{start}{_text(cell)}</{kind}>" for start, cell in pairs)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', names)}</tr></thead>"
    return f'<div class="wide" tabindex="0"><table>{head}<tbody>{body}</tbody></table></div>'


def _bars(
    title: str, values: list[float], shown: Callable[[float], str], failed: Sequence[bool] = ()
) -> str:
    count, group = len(values), -(-len(values) // _MAX_BARS)
    # Of many values, the largest of each group is drawn.
    groups = [range(at, min(at + group, count)) for at in range(0, count, group)]
    top = max(values) or 1.0
    step = _WIDTH / len(groups)
    bars: list[str] = []
    for number, members in enumerate(groups):
        value = max(values[at] for at in members)
        height = _HEIGHT * value / top
        has_failed = any(failed[members.start : members.stop])
        bars.append(
            f'<rect class="{"other" if has_failed else "bar"}" x="{number * step:.1f}" '
            f'y="{_HEIGHT - height:.1f}" width="{max(step * 0.8, 1):.1f}" height="{height:.1f}">'
            f"<title>{members.start + 1}: {_text(shown(value))}"
            f"{', error' if has_failed else ''}</title></rect>"
        )
    errors = "; orange: an error" if any(failed) else ""
    about = f"{title}, from 1 to {count:,}; the longest bar is {shown(top)}{errors}"
    return _chart(about, "".join(bars))


def _context(points: list[ContextPoint]) -> str:
    group = -(-len(points) // _MAX_BARS)
    points = points[::group] + points[-1:]
    first, last = points[0].ts, max(points[-1].ts, points[0].ts + 0.001)
    most, window = max(point.used for point in points), max(point.size for point in points)
    top = max(most, window, 1)
    path = " ".join(
        f"{_WIDTH * (point.ts - first) / (last - first):.1f},"
        f"{_HEIGHT - _HEIGHT * point.used / top:.1f}"
        for point in points
    )
    share = f" of {window:,} ({100 * most / window:.0f} %)" if window else ""
    times = f"from {duration(first)} to {duration(last)}"
    about = f"Used tokens of the context window {times}: at most {most:,}{share}"
    return _chart(about, f'<polyline class="line" points="{path}"/>')


def _chart(about: str, drawn: str) -> str:
    label = _text(about)
    return (
        f'<figure><figcaption>{label}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'preserveAspectRatio="none" role="img" aria-label="{label}">{drawn}</svg></figure>'
    )


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _text(text: str) -> str:
    return escape(one_line(text, 200))
