"""`accord trace tap`: a proxy for chains that passes everything on and records it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click

from accord.errors import TransportError
from accord.local.run import run_program
from accord.proxy.multiplexed import serve_stages
from accord.proxy.stage import Stage
from accord.transports.base import Frame
from accord.transports.stdio import stdio
from accord_terminal.toolkit.options import max_size_option, no_redact_option
from accord_terminal.trace.options import open_recording, path_option, report_waiting
from accord_trace.chain_recorder import proxy_recorder


@click.command("tap")
@path_option
@no_redact_option
@max_size_option
def command(path: Path, no_redact: bool, max_size: float | None) -> int:
    """Be a proxy of a chain that passes everything on and records both of its sides.

    Use it as a component of `accord chain`, or of another conductor, at the place to be recorded.
    """
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
