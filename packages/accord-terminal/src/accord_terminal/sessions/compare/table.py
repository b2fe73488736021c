"""Shows attempts side by side, or one below another if the terminal is narrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from accord_terminal.sessions.compare.attempt import Attempt
from accord_terminal.toolkit.text import one_line, printable

_COLUMN = 36  # characters that a column needs
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def show_attempts(attempts: Sequence[Attempt], console: Console) -> None:
    """Print results, answers and diffs."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    for attempt in attempts:
        table.add_column(Text(one_line(attempt.agent, 40)), overflow="fold")
    rows: tuple[tuple[str, Callable[[Attempt], str]], ...] = (
        ("result", _result),
        ("time", lambda attempt: f"{attempt.seconds:.1f} s"),
        ("cost", _cost),
        ("tokens", lambda attempt: "-" if attempt.tokens is None else f"{attempt.tokens:,}"),
        ("tool calls", lambda attempt: str(attempt.tool_calls)),
        ("rejected", lambda attempt: str(len(attempt.rejected) or "-")),
        ("changes", _changes),
    )
    for name, cell in rows:
        table.add_row(name, *(Text(one_line(cell(attempt))) for attempt in attempts))
    if any(attempt.worktree for attempt in attempts):
        table.add_row("worktree", *(Text(attempt.worktree or "-") for attempt in attempts))
    console.print(table)
    _section("Answers", attempts, lambda each: Text(printable(each.text).strip() or "-"), console)
    _section("Diffs", attempts, _diff, console)


def _section(
    title: str,
    attempts: Sequence[Attempt],
    content: Callable[[Attempt], Text],
    console: Console,
) -> None:
    console.print()
    console.print(Text(title, style="bold underline"))
    parts: list[RenderableType] = [content(attempt) for attempt in attempts]
    if console.width // len(attempts) >= _COLUMN:
        table = Table(box=None, padding=(0, 2, 0, 0), expand=True, header_style="bold")
        for attempt in attempts:
            table.add_column(Text(one_line(attempt.agent, 40)), ratio=1, overflow="fold")
        table.add_row(*parts)
        console.print(table)
        return
    for attempt, part in zip(attempts, parts, strict=True):
        console.print(Text(one_line(attempt.agent, 40), style="bold"))
        console.print(part)


def _diff(attempt: Attempt) -> Text:
    if not attempt.diff:
        return Text("no changes", style="dim")
    shown = Text()
    for line in attempt.diff.splitlines():
        style = "bold" if line.startswith(("+++", "---", "diff ")) else _STYLES.get(line[:1], "")
        shown.append(f"{printable(line)}\n", style=style)
    return shown


def _result(attempt: Attempt) -> str:
    return attempt.stop_reason or "-" if attempt.error is None else f"failed: {attempt.error}"


def _cost(attempt: Attempt) -> str:
    return "-" if attempt.cost is None else f"{attempt.cost:.4f} {attempt.currency or ''}".strip()


def _changes(attempt: Attempt) -> str:
    if not attempt.files:
        return "none"
    added = sum(file.added or 0 for file in attempt.files)
    removed = sum(file.removed or 0 for file in attempt.files)
    count = len(attempt.files)
    return f"{count} file{'s' * (count != 1)}, +{added} -{removed}"
