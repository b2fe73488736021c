"""The parts of a conversation as Markdown, for files that people read and send to others.

Text of an agent stays Markdown; a code block that it left open is closed. All else that comes from
outside, such as titles and paths, has no meaning to Markdown. Diffs and outputs are code blocks
whose fence is longer than any in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from accord.client.events import UNFINISHED, ToolCall
from accord.client.transcript import TerminalTranscript
from accord.text.excerpt import output_lines
from accord.text.markdown_html import closed_markdown
from accord.types.diffs import diff_lines
from accord.types.tool_calls import Diff
from accord_terminal.toolkit.safe_text import (
    last_lines,
    one_line,
    printable,
    relative_path,
)

MAX_OUTPUT_LINES = 200  # of a tool call
_MARKS = {"completed": "✓", "failed": "✗", "cancelled": "⊘"}


def agent_text(text: str) -> str:
    """Return the agent's own Markdown."""
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
