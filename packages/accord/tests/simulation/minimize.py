"""Makes a failing program smaller while it fails in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from simulation.program import Program
from simulation.run import play

__all__ = ("minimize",)

MOST_RUNS = 600


def minimize(program: Program, kind: str, *, most_runs: int = MOST_RUNS) -> Program:
    """Return a smaller program with the same failure."""
    best = msgspec.to_builtins(program)
    runs = 0
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(best):
            if runs >= most_runs:
                return msgspec.convert(best, Program)
            try:
                candidate = msgspec.convert(smaller, Program)
            except msgspec.ValidationError:
                continue
            runs += 1
            if kind in {failure.kind for failure in play(candidate).failures}:
                best, progress = smaller, True
                break
    return msgspec.convert(best, Program)


def _smaller(value: Any, key: str = "") -> Iterator[Any]:
    """Yield variants of plain data, the smallest first: parts removed, numbers reduced."""
    match value:
        case list():
            size = len(value)
            part = size
            while part:
                for start in range(0, size, part):
                    yield value[:start] + value[start + part :]
                part //= 2
            for at, item in enumerate(value):
                # The inner part replaces the whole.
                for inner in ("acts", "steps"):
                    if isinstance(item, dict) and item.get(inner) and key == inner:
                        yield [*value[:at], *item[inner], *value[at + 1 :]]
                for smaller in _smaller(item):
                    yield [*value[:at], smaller, *value[at + 1 :]]
        case dict():
            for name in value:
                if name not in ("type", "seed", "at", "step", "seconds"):
                    yield {other: value[other] for other in value if other != name}
            for name, inner in value.items():
                if name in ("seed", "type", "waiting", "waiting_bytes", "frame_bytes", "at"):
                    continue
                for smaller in _smaller(inner, name):
                    yield {**value, name: smaller}
        case bool() | str() | None:
            return
        case int():
            for smaller in (0, 1, value // 2, value - value // 8, value - 1):
                if 0 <= smaller < value:
                    yield smaller
        case float():
            for smaller in (0.0, 1.0, float(int(value))):
                if smaller < value:
                    yield smaller
        case _:
            return
