"""Tool calls, diffs, terminals and plans as rows, and as Markdown for files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from accord.client.events import UNFINISHED, Plan, ToolCall
from accord.client.transcript import TerminalTranscript
from accord.errors import AccordError
from accord.local.files import Roots
from accord.text.excerpt import output_lines
from accord.types.diffs import diff_lines
from accord.types.tool_calls import Diff, TerminalView
from accord_terminal.toolkit.text import (
    GUTTER,
    Row,
    last_lines,
    one_line,
    printable,
    relative_path,
    relative_title,
)

# Diffs as rows with line numbers.


def diff_rows(diff: Diff, lines_before: int | None = 0) -> Iterator[Row]:
    """Yield the lines of a diff as rows with line numbers, without the file header."""
    for line in diff_lines(diff, lines_before=lines_before):
        if line.sign == "gap":
            yield Row("⋯", "dim", " " * 8)
        elif line.sign == "remark":
            yield Row(printable(line.text), "dim", " " * 8)
        else:
            style = {"+": "green", "-": "red"}.get(line.sign, "")
            number = line.old if line.sign == "-" else line.new
            lead = f"{number or '':>5} {line.sign} "
            yield Row(
                printable(line.text), style, lead, lead_style=style or "dim", whole_words=False
            )


def diff_counts(diff: Diff) -> tuple[int, int]:
    """Return the number of added and of removed lines."""
    signs = [line.sign for line in diff_lines(diff)]
    return signs.count("+"), signs.count("-")


# Where in its file the text of a diff is: agents may send only an excerpt, which counts from 1.

MAX_FILE = 1_000_000  # bytes; it is read while the screen is drawn


def lines_before_diff(diff: Diff, call: ToolCall, folder: str | None) -> int | None:
    """Return what to add to the numbers of a diff, None if its place in the file is not known.

    This reads the file, which must be in the folder and have the text at one place only. A patch
    keeps its own numbers if no place is certain.
    """
    if diff.patch is None:
        if diff.old is None or diff.new is None:
            return 0  # a whole file
        texts, first, unknown = (diff.old, diff.new), 0, None
    else:
        lines = list(diff_lines(diff))
        if not lines or f"\n{diff.patch}".count("\n@@ ") != 1:
            return 0
        old, new = (
            "".join(f"{line.text}\n" for line in lines if line.sign != other) for other in "+-"
        )
        texts, first, unknown = (old, new), (lines[0].old or lines[0].new or 1) - 1, 0
    if not folder:
        return unknown
    try:
        file = Roots([folder]).read(diff.path, max_bytes=MAX_FILE)
    except FileNotFoundError:
        file = ""
    except (AccordError, OSError, ValueError):
        return unknown
    for text in reversed(texts) if call.status == "completed" else texts:
        # The other text must not be searched if this one is at several places: it may be elsewhere.
        if places := _places(file, text):
            return places[0] - first if len(places) == 1 else unknown
    return unknown


def _places(file: str, text: str) -> list[int]:
    """Return how many lines precede a text of whole lines, for its first two places."""
    if not text:
        return [0, 1] if file else [0]  # no text is everywhere
    # Searched as one string: comparing lists of lines can take quadratic time.
    block = "\n" + "\n".join(text.removeprefix("\ufeff").splitlines()) + "\n"
    whole = file.removeprefix("\ufeff").replace("\r\n", "\n")
    whole = "\n" + whole.removesuffix("\n") + "\n"
    at = whole.find(block)
    second = whole.find(block, at + 1) if at >= 0 else -1
    return [whole.count("\n", 0, found) for found in (at, second) if found >= 0]


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


# The parts of a conversation as Markdown, for files that people read and send to others. Text of
# an agent stays Markdown; a code block that it left open is closed. All else that comes from
# outside, such as titles and paths, has no meaning to Markdown. Diffs and outputs are code blocks
# whose fence is longer than any in the text.

MAX_OUTPUT_LINES = 200  # of a tool call
_MARKS = {"completed": "✓", "failed": "✗", "cancelled": "⊘"}


def agent_text(text: str) -> str:
    """Return the agent's own Markdown."""
    from accord.text.markdown_html import closed_markdown  # it imports markdown_it

    return closed_markdown(printable(text))


def plain(text: str) -> str:
    """Return a text as one line of Markdown that shows just this text."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|~" else c for c in one_line(text))


def quoted(text: str) -> str:
    """Return Markdown as a block quote."""
    return "\n".join(f"> {line}" for line in text.split("\n"))


def tool_call_parts(
    call: ToolCall, cwd: str, terminals: Iterable[TerminalTranscript] = ()
) -> Iterator[str]:
    """Yield a tool call with its diffs, the end of its output, and its text."""
    left = f" *({UNFINISHED})*" if call.shown_status == UNFINISHED else ""
    yield f"**{_MARKS.get(call.status, '…')} {plain(call.title or str(call.kind))}**{left}"
    for part in call.content:
        if isinstance(part, Diff):
            path = one_line(relative_path(part.path, cwd))
            signs = {"gap": "@@", "remark": "\\"}
            lines = (f"{signs.get(line.sign, line.sign)}{line.text}" for line in diff_lines(part))
            yield _fenced(f"{path}\n" + printable("\n".join(lines)), "diff")
    for terminal in terminals:
        yield _fenced("\n".join(last_lines(terminal.output, MAX_OUTPUT_LINES)[0]), "")
    text = "".join(part for part in call.content if isinstance(part, str))
    if text.strip():
        yield _fenced("\n".join(output_lines(text.strip("\n"))[:MAX_OUTPUT_LINES]), "")


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
