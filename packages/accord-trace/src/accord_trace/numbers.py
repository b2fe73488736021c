"""Times and sizes as short texts."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return a time with three significant digits, such as `1.42 ms`."""
    if seconds >= 100:
        return f"{seconds:.0f} s"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 0.001:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds * 1e6:.0f} µs"


def size(count: int) -> str:
    """Return a number of bytes, such as `1.2 kB`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def counted(count: int, what: str) -> str:
    """Return a count and its noun, such as `1 turn` and `1,200 turns`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
