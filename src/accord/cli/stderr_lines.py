"""Lines for people on stderr: at a terminal folded below their own indentation."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

__all__ = ("write_stderr",)


def write_stderr(lines: Iterable[str]) -> None:
    """Write lines, which hold nothing that a terminal obeys; in a pipe none is folded."""
    if sys.stderr is None or not sys.stderr.isatty():  # None: it was closed before we began
        for line in lines:
            click.echo(line, err=True)
        return
    from accord.cli.rows import Row
    from accord.cli.terminal_output import TerminalWriter

    paper = TerminalWriter(sys.stderr)
    texts = [(line, line.lstrip(" ")) for line in lines]
    paper.write_lines(
        paper.render_rows(Row(text, "", line[: len(line) - len(text)]) for line, text in texts)
    )
