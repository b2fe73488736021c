"""`accord trace record`: an agent for a client's settings that records another agent."""

from __future__ import annotations

from pathlib import Path

import click

from accord.errors import StartError
from accord_terminal.toolkit.options import (
    bytes_of,
    max_size_option,
    no_redact_option,
    own_path,
)
from accord_terminal.trace.options import path_option, report_waiting
from accord_trace.recorder_process import RecorderProcess, Settings, run_tee


@click.command("record")
@path_option
@no_redact_option
@max_size_option
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED)
def command(path: Path, no_redact: bool, max_size: float | None, agent: tuple[str, ...]) -> int:
    """Run an agent, pass everything through unchanged, and record the messages.

    AGENT is the command of the agent, after `--`. Configure this command in the client instead of
    the agent. The file has mode 0600, and secrets are replaced. The exit status is the agent's.
    """
    path = own_path(path)
    settings = Settings(str(path), list(agent), not no_redact, bytes_of(max_size))

    def open_recorder() -> RecorderProcess:
        try:
            recorder = RecorderProcess(settings)
        except OSError as error:
            raise click.ClickException(f"Cannot write {path}: {error.strerror}") from None
        report_waiting("record")
        return recorder

    try:
        return run_tee(agent, open_recorder)
    except StartError as error:
        raise click.ClickException(str(error)) from None
