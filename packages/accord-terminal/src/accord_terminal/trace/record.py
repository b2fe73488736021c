"""What records: `accord trace record`, `accord trace tap`, and `accord chain --trace`.

Clients wait for these programs to start: each imports only what it needs itself.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from accord.errors import StartError, TransportError
from accord_terminal.toolkit.options import bytes_of, max_size_option, no_redact_option, own_path
from accord_terminal.trace import open_recording, path_option, report_waiting
from accord_trace.recorder_process import RecorderProcess, Settings, run_tee

if TYPE_CHECKING:
    from accord.proxy.conductor import Component
    from accord.transports.base import Frame
    from accord_trace.recording import ChainRecorder


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


@click.command("tap")
@path_option
@no_redact_option
@max_size_option
def tap_command(path: Path, no_redact: bool, max_size: float | None) -> int:
    """Be a proxy of a chain that passes everything on and records both of its sides.

    Use it as a component of `accord chain`, or of another conductor, at the place to be recorded.
    """
    from accord.local.run import run_program
    from accord.proxy.conductor import serve_stages
    from accord.proxy.stage import Stage
    from accord.transports.stdio import stdio
    from accord_trace.recording import proxy_recorder

    with open_recording(path, (), redact=not no_redact, max_size=max_size) as recording:
        report_waiting("tap")
        recorder = proxy_recorder(recording)

        def observe(_hop: str, direction: Literal["received", "sent"], frame: Frame) -> None:
            recorder.frame(frame, to_proxy=direction == "received")

        try:
            run_program(serve_stages([Stage()], stdio(restore=False), [observe]))
        except TransportError as error:
            print(f"accord trace tap: {error}", file=sys.stderr)
            return 1
    return 0


@contextmanager
def recorded(
    path: Path, parts: Sequence[Component], *, redact: bool, max_size: float | None
) -> Generator[ChainRecorder]:
    """Record the hops of `accord chain --trace FILE`; `parts` have unique names."""
    from accord_trace.recording import ChainRecorder

    argv = [part.name for part in parts]
    with open_recording(path, argv, redact=redact, max_size=max_size) as recording:
        yield ChainRecorder(recording, parts)
