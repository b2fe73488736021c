"""`accord trace record`: an agent for a client's settings that records another agent."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from accord.cli.trace_options import max_size_option, no_redact_option, open_recording, path_option
from accord.errors import StartError
from accord.trace.tee import run_tee

__all__ = ("command",)


@click.command("record", context_settings={"ignore_unknown_options": True})
@path_option
@no_redact_option
@max_size_option
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED)
def command(path: Path, no_redact: bool, max_size: float | None, agent: tuple[str, ...]) -> int:
    """Run an agent, pass everything through unchanged, and record the messages.

    AGENT is the command of the agent, after `--`. Configure this command in the client instead of
    the agent. The file has mode 0600, and secrets are replaced. The exit status is the agent's.
    """
    with open_recording(path, agent, redact=not no_redact, max_size=max_size) as recording:
        try:
            status = run_tee(agent, recording.hop())
        except StartError as error:
            raise click.ClickException(str(error)) from None
    if recording.error is not None:
        print(
            f"accord trace: cannot write {recording.path}: {recording.error.strerror}",
            file=sys.stderr,
        )
    return status
