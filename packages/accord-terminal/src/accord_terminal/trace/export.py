"""`accord trace export`: a recording in other formats."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from accord.installed import install_command
from accord_terminal.trace import (
    Unreadable,
    directions,
    first_option,
    open_folder,
    output_parts,
    refuse_recording,
    show_problems,
)
from accord_trace.exports import http_archive, jsons_lines, pytest_module, transcript
from accord_trace.reading import Trace, TraceError
from accord_trace.spans import otlp_lines


@click.command("export")
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
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
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to a file, of mode 0600, instead of stdout; for a folder of recordings, to files "
    "in this folder.",
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
    """Write a recording in another format. Secrets that were not replaced are exported, too.

    RECORDING is a file or a folder, whose recordings are written to files in the folder of -o.
    """
    if form != "otlp" and (endpoint is not None or content):
        raise click.UsageError("--endpoint and --content are for --format otlp")
    if endpoint is not None and output is not None:
        raise click.UsageError("Expected --endpoint or --output, got both")
    if endpoint is not None and not endpoint.lower().startswith(("http://", "https://")):
        raise click.UsageError(f"--endpoint: expected http:// or https://, got {endpoint}")
    written: Path | None = output
    try:
        traces = open_folder(recording, first=directions[first])
        if output is not None and (len(traces) > 1 or output.is_dir()):
            files = [output / _file_name(trace, form) for trace in traces]
        elif len(traces) > 1 and endpoint is None:
            raise click.UsageError(f"{recording} has {len(traces)} recordings: add -o FOLDER")
        else:
            files = [output] * len(traces)
        for trace, written in zip(traces, files, strict=True):
            _export(trace, form, written, endpoint, content)
            show_problems(trace.problems)
    except TraceError as error:
        raise Unreadable(str(error)) from None
    except BrokenPipeError:
        return 0  # `| head`
    except OSError as error:
        raise click.ClickException(
            f"Cannot write {written or 'the output'}: {error.strerror}"
        ) from None
    return 0


def _export(
    trace: Trace, form: str, output: Path | None, endpoint: str | None, content: bool
) -> None:
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
        output.parent.mkdir(parents=True, exist_ok=True)
        output_parts(output, _parts(trace, form, content, output))


def _file_name(trace: Trace, form: str) -> str:
    """Return the name of an exported recording, in the folder for those of a folder."""
    name = re.sub(r"(\.acp)?\.(jsonl(\.gz|\.zst)?|jsons|ndjson)$", "", trace.name)
    folder, _, base = name.rpartition("/")
    if form == "pytest":
        base = f"test_{re.sub(r'[^0-9A-Za-z_]', '_', base)}"
    ending = {"otlp": "otlp.jsonl", "pytest": "py"}.get(form, form)
    return f"{folder}/{base}.{ending}" if folder else f"{base}.{ending}"


def _sent(trace: Trace, endpoint: str, content: bool) -> int:
    try:
        from accord_trace.otlp_sender import CollectorError, send_spans
    except ImportError:
        raise click.ClickException(
            f"--endpoint needs the extra `otlp`: {install_command('cli,otlp')}"
        ) from None
    try:
        return send_spans(trace, endpoint, content=content)
    except CollectorError as error:
        raise click.ClickException(str(error)) from None


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
