"""`accord trace record`: an agent for a client's settings that records another agent."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from accord.errors import StartError
from accord.trace.recording import Recording
from accord.trace.tee import run_tee

__all__ = ("record",)

_MEGABYTE = 1_000_000


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The recording, such as r.acp.jsonl; .gz at the end compresses it. `{pid}` is replaced "
    "by the number of this process.",
)
@click.option("--no-redact", is_flag=True, help="Keep secrets: environment, headers, logins.")
@click.option(
    "--max-size",
    type=click.FloatRange(0, min_open=True),
    metavar="MB",
    help="Continue in a new file after this size.",
)
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED)
def record(path: Path, no_redact: bool, max_size: float | None, agent: tuple[str, ...]) -> int:
    """Run an agent, pass everything through unchanged, and record the messages.

    AGENT is the command of the agent, after `--`. Configure this command in the client instead of
    the agent. The file has mode 0600, and secrets are replaced. The exit status is the agent's.
    """
    path = path.with_name(path.name.replace("{pid}", str(os.getpid())))
    try:
        recording = Recording(
            path,
            redact=not no_redact,
            max_bytes=None if max_size is None else round(max_size * _MEGABYTE),
            argv=agent,
        )
    except OSError as error:
        raise click.ClickException(f"Cannot write {path}: {error.strerror}") from None
    with recording:
        try:
            status = run_tee(agent, recording.hop())
        except StartError as error:
            raise click.ClickException(str(error)) from None
    if recording.error is not None:
        print(f"accord trace: cannot write {path}: {recording.error.strerror}", file=sys.stderr)
    return status
