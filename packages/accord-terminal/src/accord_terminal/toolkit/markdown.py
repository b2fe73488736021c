"""Renders the agent's Markdown for a terminal, without losing text; links show their targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, Markdown, TableElement
from rich.rule import Rule
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table

from accord_terminal.toolkit.terminal_output import TerminalWriter

MAX_COLUMNS = 100  # longer lines are hard to read
_MIN_COLUMNS = 20  # a narrower terminal shows the source

# Without HTML, which would be dropped: `List<String>` stays visible.
_parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")


def finished_length(text: str) -> int:
    """Return how many characters of a Markdown text can no longer change, whatever follows.

    These are all blocks except the last one, which the next line may continue.
    """
    return (block_starts(text) or (0,))[-1]


def block_starts(text: str) -> list[int]:
    """Return where blocks of a Markdown text begin, after finished ones: the last may change."""
    whole = text.rfind("\n") + 1  # an incomplete line may become anything
    starts = [line for token in _parser.parse(text[:whole]) if (line := _start(token)) is not None]
    ends = list(accumulate((len(line) + 1 for line in text[:whole].split("\n")), initial=0))
    return [ends[line] for line in starts[1:]]


def _start(token: Token) -> int | None:
    """Return the first line of a block; None for a token inside a block."""
    if token.level or token.nesting < 0 or token.map is None:
        return None
    return token.map[0]


def markdown_lines(writer: TerminalWriter, text: str, width: int) -> list[str]:
    """Return the lines of a Markdown text for a terminal; if rendering loses text, its source."""
    segments = markdown_segments(writer.segments, text, width)
    if segments is None:
        return writer.fold_text(text, min(width, MAX_COLUMNS))
    return _trim(writer.render_segments(segments))


def markdown_segments(
    render: Callable[[RenderableType, int], list[list[Segment]]], text: str, width: int
) -> list[list[Segment]] | None:
    """Return the lines of a Markdown text as segments; None if rendering would lose text.

    `render` renders a rich object at a width.
    """
    width = min(width, MAX_COLUMNS)
    if width < _MIN_COLUMNS:
        return None
    tokens = _parser.parse(text)
    rendered = _TokenMarkdown(tokens)
    try:
        segments = render(rendered, width)
    except Exception:  # noqa: BLE001  # the source is shown instead
        return None
    words = _letters(_token_texts(tokens))
    if words <= _letters(_segment_texts(segments)) and not _loses_cells(tokens, text):
        return segments
    return None


def _trim(lines: list[str]) -> list[str]:
    """Return lines without blank lines at either end."""
    full = [number for number, line in enumerate(lines) if line]
    return lines[full[0] : full[-1] + 1] if full else []


class _LeftHeading(Heading):
    LEVEL_ALIGN = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = False  # blank lines
            yield table


class _Ruler(HorizontalRule):
    new_line = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="dim", characters="─")


class _TokenMarkdown(Markdown):
    """Renders tokens that were parsed without HTML."""

    elements = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
        "hr": _Ruler,
    }

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__("", code_theme="ansi_dark")
        for token in tokens:
            if token.children:
                token.children = list(_show_targets(token.children))
        self.parsed = tokens


def _show_targets(tokens: list[Token]) -> Iterable[Token]:
    """Yield inline tokens; add the target to each link whose text differs from it."""
    target: str | None = None
    words: list[Token] = []
    for token in tokens:
        if token.type == "image":
            yield _text(f"{token.content} ({token.attrs.get('src', '')})".lstrip())
        elif token.type == "link_open":
            target, words = str(token.attrs.get("href", "")), [token]
        elif token.type == "link_close" and target is not None:
            text = "".join(word.content for word in words)
            if text == target or f"mailto:{text}" == target:
                yield from (*words, token)
            else:
                yield from words[1:]
                yield _text(f" ({target})")
            target = None
        elif target is not None:
            words.append(token)
        else:
            yield token


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _token_texts(tokens: list[Token]) -> Iterable[str]:
    for token in tokens:
        if token.children:
            yield from _token_texts(token.children)
        elif token.type != "inline":
            yield token.content


def _loses_cells(tokens: list[Token], text: str) -> bool:
    """Return whether Markdown would drop cells: a row has more of them than the table head."""
    lines = text.split("\n")
    for number, token in enumerate(tokens):
        if token.type != "tr_open" or token.map is None:
            continue
        end = next(n for n in range(number, len(tokens)) if tokens[n].type == "tr_close")
        source = (part for line in lines[slice(*token.map)] for part in line if part.isalnum())
        if not _letters(source) <= _letters(_token_texts(tokens[number:end])):
            return True
    return False


def _segment_texts(lines: list[list[Segment]]) -> Iterable[str]:
    return (segment.text for line in lines for segment in line)


def _letters(texts: Iterable[str]) -> Counter[str]:
    """Count the characters of texts that are not spaces."""
    return Counter("".join("".join(texts).split()))
