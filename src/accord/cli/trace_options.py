"""What the commands of `accord trace` share."""

from __future__ import annotations

import os
from pathlib import Path

import click

from accord.trace.records import Direction
from accord.trace.trace import Trace

__all__ = ("directions", "first_option", "output_text", "show_problems")

directions: dict[str, Direction] = {"client": "to_agent", "agent": "to_client"}

first_option = click.option(
    "--first",
    type=click.Choice(["client", "agent"]),
    default="client",
    show_default=True,
    help="Sender of the first message, where none is recorded.",
)


def show_problems(trace: Trace) -> None:
    """Report the lines of a recording that were skipped on stderr."""
    for problem in trace.problems[:5]:
        click.echo(f"accord trace: skipped {problem}", err=True)
    if len(trace.problems) > 5:
        click.echo(f"accord trace: {len(trace.problems) - 5} more lines skipped", err=True)


def output_text(path: Path, text: str) -> None:
    """Write a private file: it has contents of a recording."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise click.ClickException(f"Cannot write {path}: {error.strerror}") from None
