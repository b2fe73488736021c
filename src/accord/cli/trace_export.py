"""`accord trace export`: a recording in other formats."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from accord.cli.trace_options import (
    directions,
    first_option,
    output_parts,
    refuse_recording,
    show_problems,
)
from accord.installed import install_command
from accord.trace.exporting import jsons_lines
from accord.trace.http_archive import http_archive
from accord.trace.otlp import otlp_lines
from accord.trace.pytest_module import pytest_module
from accord.trace.reading import TraceError
from accord.trace.trace import Trace, open_trace
from accord.trace.transcript import transcript

__all__ = ("command",)


@click.command("export")
@click.argument("recording", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsons", "har", "md", "pytest", "otlp"]),
    required=True,
    help="jsons: the trace viewer of Rust; har: developer tools of browsers; md: a transcript; "
    "pytest: tests of a client with the recording, and of the agent; otlp: spans of OpenTelemetry.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to a file, of mode 0600, instead of stdout.",
)
@click.option(
    "--endpoint",
    metavar="URL",
    help="Send the spans to a collector, such as http://localhost:4318, instead of stdout.",
)
@click.option("--content", is_flag=True, help="Prompts, messages and tool contents in spans too.")
@first_option
def command(
    recording: Path,
    form: str,
    output: Path | None,
    endpoint: str | None,
    content: bool,
    first: str,
) -> int:
    """Write a recording in another format. Secrets that were not replaced are exported, too."""
    if form != "otlp" and (endpoint is not None or content):
        raise click.UsageError("--endpoint and --content are for --format otlp")
    if endpoint is not None and output is not None:
        raise click.UsageError("Expected --endpoint or --output, got both")
    if endpoint is not None and not endpoint.lower().startswith(("http://", "https://")):
        raise click.UsageError(f"--endpoint: expected http:// or https://, got {endpoint}")
    try:
        trace = open_trace(recording, first=directions[first])
        if output is not None:
            refuse_recording("--output", output, trace)
        next(iter(trace), None)  # nothing is written if it is not a recording
        if endpoint is not None:
            count = _sent(trace, endpoint, content)
            click.echo(f"{count} spans sent to {endpoint}")
        elif output is None:
            for part in _parts(trace, form, content, output):
                sys.stdout.buffer.write(part)
            sys.stdout.flush()
        else:
            output_parts(output, _parts(trace, form, content, output))
    except TraceError as error:
        raise click.ClickException(str(error)) from None
    except BrokenPipeError:
        return 0  # `| head`
    except OSError as error:
        raise click.ClickException(
            f"Cannot write {output or 'the output'}: {error.strerror}"
        ) from None
    show_problems(trace.problems)
    return 0


def _sent(trace: Trace, endpoint: str, content: bool) -> int:
    try:
        from accord.trace.otlp_sender import send_spans
    except ImportError:
        raise click.ClickException(
            f"--endpoint needs the extra `otlp`: {install_command('cli,otlp')}"
        ) from None
    return send_spans(trace, endpoint, content=content)


def _path_from(output: Path | None, trace: Trace) -> str:
    """Return the path of the recording from the folder of the output."""
    if output is None:
        return trace.name  # where the output goes is not known
    return Path(os.path.relpath(trace.files[0], output.parent)).as_posix()


def _parts(trace: Trace, form: str, content: bool, output: Path | None) -> Iterator[bytes]:
    match form:
        case "jsons":
            yield from jsons_lines(trace)
        case "har":
            yield from http_archive(trace)
        case "otlp":
            yield from otlp_lines(trace, content=content)
        case "md":
            for part in transcript(trace, trace.name):
                yield part.encode("utf-8", "replace")
        case _:
            for part in pytest_module(trace, _path_from(output, trace)):
                yield part.encode()
