"""Small charts as SVG: they have shapes only, so that text keeps its size on narrow screens."""

from __future__ import annotations

from html import escape

from accord_fleet.report.statistics import Interval
from accord_fleet.report.summary import Distribution

_WIDTH, _HEIGHT = 800, 100  # units of the drawing: it fills the width of its place


def interval_bar(rate: float, interval: Interval) -> str:
    """Return a line from 0 to 100 % with the interval and the rate; the text is next to it."""
    low, high = interval.low * _WIDTH, interval.high * _WIDTH
    at = rate * _WIDTH
    quarters = "".join(
        f'<rect class="axis" x="{_WIDTH * part / 4 - 0.5:.1f}" y="0" width="1" height="24"/>'
        for part in range(5)
    )
    return (
        f'<svg class="interval" viewBox="-4 0 {_WIDTH + 8} 24" preserveAspectRatio="none" '
        f'aria-hidden="true">{quarters}'
        f'<rect class="range" x="{low:.1f}" y="7" width="{max(high - low, 1):.1f}" height="10"/>'
        f'<rect class="point" x="{at - 3:.1f}" y="2" width="6" height="20"/></svg>'
    )


def histogram(values: Distribution, label: str) -> str:
    """Return the bars of a distribution; `label` describes them for screen readers."""
    counts = values.counts or (values.count,)
    top, step = max(counts), _WIDTH / len(counts)
    bars: list[str] = []
    for number, count in enumerate(counts):
        if not count:
            continue
        height = max(_HEIGHT * count / top, 2.0)
        bars.append(
            f'<rect class="bar" x="{number * step + step * 0.06:.1f}" '
            f'y="{_HEIGHT - height:.1f}" width="{step * 0.88:.1f}" height="{height:.1f}"/>'
        )
    return (
        f'<svg class="histogram" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{escape(label)}">{"".join(bars)}</svg>'
    )
