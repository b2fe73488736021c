"""Tool calls, terminals and plans as rows: a title line, and the result below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from accord.client.events import UNFINISHED, Plan, ToolCall
from accord.client.transcript import TerminalTranscript
from accord.types.tool_calls import Diff, TerminalView
from accord_terminal.toolkit.diff_rows import diff_counts, diff_rows
from accord_terminal.toolkit.rows import GUTTER, Row
from accord_terminal.toolkit.safe_text import (
    last_lines,
    one_line,
    relative_path,
    relative_title,
)

MARKS = {
    "pending": ("○", "dim"),
    "in_progress": ("◐", "yellow"),
    "paused": ("◌", "yellow"),
    "completed": ("●", "green"),
    "failed": ("✗", "red"),
    "cancelled": ("⊘", "dim"),
    UNFINISHED: ("◐", "dim"),
}
STEPS = {
    "pending": ("·", "dim"),
    "in_progress": ("▸", "yellow"),
    "completed": ("✓", "green"),
    "cancelled": ("⊘", "dim"),
}
LAST_LINES = 12  # of a finished output
MAX_DIFF_ROWS = 60


def title_rows(call: ToolCall, cwd: str | None, *, counts: bool = True) -> Iterator[Row]:
    """Yield the title line of a tool call, and a line of paths that the title does not contain.

    `counts` adds the numbers of added and removed lines, which compares all of the texts.
    """
    mark, style = MARKS.get(call.shown_status, MARKS["in_progress"])
    title = relative_title(call.title, cwd) or one_line(str(call.kind), 40)
    added = removed = 0
    changed: dict[str, None] = {}
    for diff in diffs_of(call):
        plus, minus = diff_counts(diff) if counts else (0, 0)
        added, removed = added + plus, removed + minus
        changed[diff.path] = None
    paths = [*changed, *(location.path for location in call.locations)]
    if len(changed) > 1:  # each is shown above its diff
        paths = [path for path in paths if path not in changed]
    shown = [one_line(relative_path(path, cwd)) for path in dict.fromkeys(paths)]
    unnamed = [path for path in shown if path not in title]
    numbers = [f"+{added}"] * bool(added) + [f"−{removed}"] * bool(removed)
    left = [UNFINISHED] * (call.shown_status == UNFINISHED)
    yield Row("  ".join([title, *numbers, *left]), "", f"{mark} ", lead_style=style)
    if unnamed:
        others = f" and {len(unnamed) - 3} more" if len(unnamed) > 3 else ""
        yield Row(", ".join(unnamed[:3]) + others, "dim", "  ")


def diffs_of(call: ToolCall) -> Iterator[Diff]:
    """Yield the diffs of a tool call."""
    return (part for part in call.content if isinstance(part, Diff))


def terminal_ids(call: ToolCall) -> list[str]:
    """Return the ids of the terminals of a tool call."""
    return [part.terminal_id for part in call.content if isinstance(part, TerminalView)]


def text_of_call(call: ToolCall) -> str:
    """Return the text content of a tool call."""
    return "".join(part for part in call.content if isinstance(part, str))


def limited_diff_rows(
    diff: Diff, lines_before: int | None, max_rows: int = MAX_DIFF_ROWS
) -> Iterator[Row]:
    """Yield the first rows of a diff, and the number of omitted ones."""
    rows = list(diff_rows(diff, lines_before))
    yield from rows[:max_rows]
    if len(rows) > max_rows:
        yield Row(f"… {len(rows) - max_rows} more lines", "dim", " " * 8)


def output_rows(call: ToolCall) -> Iterator[Row]:
    """Yield the last lines of a command's output, or of the text of a failed call."""
    text = text_of_call(call)
    if call.kind == "execute" or call.status == "failed":
        yield from gutter_rows(*last_lines(_strip_fence(text), LAST_LINES))


def terminal_rows(transcript: TerminalTranscript, max_lines: int = LAST_LINES) -> Iterator[Row]:
    """Yield the last lines of a terminal, and how its command ended."""
    yield from gutter_rows(*last_lines(transcript.output, max_lines))
    terminal = transcript.terminal
    if terminal.signal is not None:
        yield Row(f"ended by {one_line(terminal.signal)}", "red", "  ")
    elif terminal.exit_code:
        yield Row(f"exit status {terminal.exit_code}", "red", "  ")


def gutter_rows(lines: Iterable[str], more: bool) -> Iterator[Row]:
    """Yield lines of an output as rows with a gutter."""
    if more:
        yield Row("…", "dim", GUTTER, GUTTER, "dim")
    for line in lines:
        yield Row(line, "dim", GUTTER, GUTTER, "dim", whole_words=False)


def plan_rows(plan: Plan, max_steps: int | None = None) -> Iterator[Row]:
    """Yield the rows of a plan; for a long one, the steps around the running one."""
    if plan.uri is not None:
        yield Row(f"Plan: {one_line(plan.uri)}", "bold")
        return
    entries = plan.entries
    done = sum(entry.status in ("completed", "cancelled") for entry in entries)
    yield Row(f"Plan {done}/{len(entries)}", "bold")
    start, end = 0, len(entries)
    if max_steps is not None and len(entries) > max_steps:
        running = [n for n, entry in enumerate(entries) if entry.status == "in_progress"]
        start = max(0, min((running or [done])[0] - 1, len(entries) - max_steps))
        end = start + max_steps
    if start:
        yield Row(f"… {start} before", "dim", "    ")
    for entry in entries[start:end]:
        mark, style = STEPS.get(entry.status, STEPS["pending"])
        text_style = style if entry.status != "completed" else "dim"
        yield Row(one_line(entry.content), text_style, f"  {mark} ", lead_style=style)
    if end < len(entries):
        yield Row(f"… {len(entries) - end} more", "dim", "    ")


def _strip_fence(text: str) -> str:
    """Return a text without the code fence that agents put around an output or a command."""
    if not text.startswith("```"):
        return text
    fence = text[: len(text) - len(text.lstrip("`"))]
    rest = text.partition("\n")[2].rstrip()
    return f"\n{rest}".replace(f"\n{fence}", "", 1).removeprefix("\n")
