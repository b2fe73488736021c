"""The rows of a plan in any of its forms: steps, a text, or a file."""

from __future__ import annotations

from collections.abc import Iterator

from accord.client.events import Plan
from accord_terminal.toolkit.text import Row, printable
from accord_terminal.toolkit.tool_rows import plan_rows


def whole_plan_rows(plan: Plan) -> Iterator[Row]:
    """Yield all of a plan."""
    if plan.markdown is None:
        yield from plan_rows(plan)
    else:
        yield from (Row(line) for line in printable(plan.markdown).split("\n"))


def short_plan_rows(plan: Plan, max_rows: int) -> Iterator[Row]:
    """Yield the steps around the running one, or the first lines of a text."""
    if plan.markdown is None:
        yield from plan_rows(plan, max_rows)
        return
    lines = [line for line in printable(plan.markdown).split("\n") if line.strip()]
    yield from (Row(line) for line in lines[:max_rows])
    if len(lines) > max_rows:
        yield Row(f"… {len(lines) - max_rows} more", "dim", "    ")
