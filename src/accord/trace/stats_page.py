"""Statistics as one self-contained HTML page with charts; nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from accord.text.excerpt import one_line
from accord.trace.numbers import duration, size
from accord.trace.stats import Stats

__all__ = ("stats_page",)

_STYLE = """
:root { color-scheme: light dark; --bar: #4069c4; --other: #b26a00 }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid #8884 }
th:first-child, td:first-child { text-align: left }
svg { width: 100%; height: auto; background: #8881; margin: .5rem 0 }
svg text { font: 11px system-ui, sans-serif; fill: currentColor }
.bar { fill: var(--bar) } .other { fill: var(--other) }
.line { fill: none; stroke: var(--bar); stroke-width: 2 }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_WIDTH, _HEIGHT, _EDGE = 800, 180, 36
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
        f"<p>{stats.messages} messages in {duration(stats.seconds)}, {len(stats.sessions)} "
        f"sessions, {len(stats.turns)} turns; {size(stats.bytes_to_agent)} to the agent, "
        f"{size(stats.bytes_to_client)} to the client</p>"
    )
    ended = [turn for turn in stats.turns if turn.seconds is not None]
    if ended:
        yield "<h2>Turns</h2>"
        yield _bars("Time of each turn", [turn.seconds or 0.0 for turn in ended], duration)
        waits = [turn.first_update_s or 0.0 for turn in ended]
        yield _bars("Time to the first update of each turn", waits, duration)
        tokens = [float(turn.tokens.get("total", sum(turn.tokens.values()))) for turn in ended]
        if any(tokens):
            yield _bars("Tokens of each turn", tokens, _count)
    if stats.context:
        yield "<h2>Context</h2>"
        points = [(point.ts, float(point.used)) for point in stats.context]
        yield _line("Used tokens of the context window over time", points)
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
        )
    totals = [f"{count} {_text(name)} tokens" for name, count in stats.tokens.items()]
    totals += [f"{amount:.4g} {_text(currency)}" for currency, amount in stats.costs.items()]
    if totals:
        yield f"<h2>Tokens and cost</h2><p>{', '.join(totals)}</p>"
    yield "</body></html>"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _bars(title: str, values: list[float], shown: Callable[[float], str]) -> str:
    group = -(-len(values) // _MAX_BARS)  # of many values, the largest of each group is drawn
    values = [max(values[at : at + group]) for at in range(0, len(values), group)]
    top = max(values) or 1.0
    step = (_WIDTH - 2 * _EDGE) / len(values)
    bars: list[str] = []
    for number, value in enumerate(values):
        height = (_HEIGHT - 2 * _EDGE) * value / top
        bars.append(
            f'<rect class="bar" x="{_EDGE + number * step:.1f}" y="{_HEIGHT - _EDGE - height:.1f}" '
            f'width="{max(step * 0.8, 1):.1f}" height="{height:.1f}">'
            f"<title>{number * group + 1}: {_text(shown(value))}</title></rect>"
        )
    return _chart(title, shown(top), "".join(bars), f"1 to {len(values) * group}")


def _line(title: str, points: list[tuple[float, float]]) -> str:
    group = -(-len(points) // _MAX_BARS)
    points = points[::group] + points[-1:]
    first, last = points[0][0], max(points[-1][0], points[0][0] + 0.001)
    top = max(value for _, value in points) or 1.0
    path = " ".join(
        f"{_EDGE + (_WIDTH - 2 * _EDGE) * (at - first) / (last - first):.1f},"
        f"{_HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * value / top:.1f}"
        for at, value in points
    )
    drawn = f'<polyline class="line" points="{path}"/>'
    return _chart(title, _count(top), drawn, f"{duration(first)} to {duration(last)}")


def _chart(title: str, top: str, drawn: str, along: str) -> str:
    label = _text(title)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        f'<text x="{_EDGE}" y="16">{label}</text><text x="{_EDGE}" y="{_EDGE - 6}">{_text(top)}'
        f'</text>{drawn}<text x="{_EDGE}" y="{_HEIGHT - 12}">{_text(along)}</text></svg>'
    )


def _count(value: float) -> str:
    return f"{value:.0f}"


def _text(text: str) -> str:
    return escape(one_line(text, 200))
