"""`accord trace`: records, shows and compares the messages between clients and agents.

`command` is the group of its commands; then follows what they share. Each is in the module of its
name, except `tap`, which is in `record`. Clients wait for `record` to start: so a command is
imported when it is called. What reads and writes recordings is in `accord_trace`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accord.text.excerpt import one_line
from accord_terminal.toolkit.options import Option, bytes_of, own_path

if TYPE_CHECKING:
    from accord_trace.reading import Trace
    from accord_trace.recording import Recording
    from accord_trace.records import Direction

__all__ = (
    "Unreadable",
    "command",
    "directions",
    "first_option",
    "open_folder",
    "open_only_trace",
    "open_recording",
    "output_parts",
    "output_text",
    "path_option",
    "refuse_recording",
    "report_waiting",
    "show_problems",
)

_COMMANDS = {
    "record": "Run an agent and record it.",
    "tap": "Record as a proxy of a chain.",
    "show": "Show a recording, one line per message.",
    "stats": "Show times, tokens and cost.",
    "replay": "Act as the recorded agent, or client.",
    "diff": "Compare two recordings.",
    "export": "Write another format.",
}


class _Commands(click.Group):
    """Imports a command when it is called: clients wait for `accord trace record` to start."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        if cmd_name == "tap":
            return importlib.import_module("accord_terminal.trace.record").tap_command
        return importlib.import_module(f"accord_terminal.trace.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands)
def command() -> None:
    """Record the messages between a client and an agent, and read recordings."""


_NAMED = 5  # recordings of a folder in an error

directions: dict[str, Direction] = {"client": "to_agent", "agent": "to_client"}


class Unreadable(click.ClickException):
    """A recording is missing, or cannot be read or compared.

    As for a wrong command line: of `diff` and `replay`, 1 says that something is different.
    """

    exit_code = 2


first_option: Option = click.option(
    "--first",
    type=click.Choice(["client", "agent"]),
    default="client",
    show_default=True,
    help="Sender of the first message, where none is recorded.",
)


path_option: Option = click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The recording, such as r.acp.jsonl; .gz or .zst at the end compresses it. `{pid}` is "
    "replaced by the number of this process.",
)


def open_recording(
    path: Path, argv: Sequence[str], *, redact: bool, max_size: float | None
) -> Recording:
    """Create the recording of these options."""
    from accord_trace.recording import Recording

    path = own_path(path)
    try:
        return Recording(path, redact=redact, max_bytes=bytes_of(max_size), argv=argv)
    except OSError as error:
        raise click.ClickException(f"Cannot write {path}: {error.strerror}") from None


def open_folder(folder: Path, *, first: Direction) -> list[Trace]:
    """Return the recordings of a folder, or the one at a path; raise `TraceError`."""
    from accord_trace.reading import open_traces

    problems: list[str] = []
    traces = open_traces(folder, first=first, problems=problems)
    show_problems(problems)
    return traces


def open_only_trace(path: Path, *, first: Direction) -> Trace:
    """Return the recording at a path, or the only one of a folder; raise `TraceError`."""
    traces = open_folder(path, first=first)
    if len(traces) > 1:
        from accord_trace.reading import TraceError

        names = ", ".join(one_line(trace.name) for trace in traces[:_NAMED])
        more = f" and {len(traces) - _NAMED} more" if len(traces) > _NAMED else ""
        raise TraceError(
            f"Expected one recording, got {len(traces)} in the folder {path}: {names}{more}"
        )
    return traces[0]


def show_problems(problems: Sequence[str]) -> None:
    """Report on stderr what was skipped: lines of a recording, or folders."""
    for problem in problems[:5]:
        click.echo(f"accord trace: skipped: {problem}", err=True)
    if len(problems) > 5:
        click.echo(f"accord trace: {len(problems) - 5} more skipped", err=True)


def refuse_recording(option: str, output: Path, trace: Trace) -> None:
    """Raise `click.UsageError` if the output is a file of the recording."""
    if output.exists() and any(output.samefile(file) for file in trace.files if file.exists()):
        raise click.UsageError(f"{option} is the recording itself: {output}")


def report_waiting(name: str) -> None:
    """Report on a terminal that the command waits for a client, which did not start it."""
    if sys.stdin is not None and sys.stdin.isatty():
        text = f"accord trace {name}: waiting for JSON lines from a client; end with Ctrl-D"
        click.echo(text, err=True)


def output_parts(output: Path, parts: Iterable[bytes]) -> None:
    """Write a private file: it has contents of a recording. Raise `OSError`.

    The file that exists is replaced when everything is written.
    """
    path = output
    if not output.exists() or output.is_file():
        path = output.with_name(f".{output.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.writelines(parts)
        if path != output:
            path.replace(output.resolve())
    finally:
        if path != output:
            path.unlink(missing_ok=True)


def output_text(path: Path, text: str) -> None:
    """Write a private file as `output_parts` does; raise `click.ClickException`."""
    try:
        output_parts(path, (text.encode("utf-8", "replace"),))
    except OSError as error:
        raise click.ClickException(f"Cannot write {path}: {error.strerror}") from None
