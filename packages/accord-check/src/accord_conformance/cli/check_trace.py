"""Commands without a run: `check trace` judges a recording, and `check rules` lists the rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Literal

import click
from msgspec import to_builtins

from accord.text.excerpt import visible
from accord_conformance.cli.show_report import show_report, show_rules, show_verdict
from accord_conformance.judges.observer import judge_recording
from accord_conformance.reports.formats import json_text
from accord_conformance.reports.report import RunResult, verdict
from accord_conformance.rules.manifest import UnknownName, select_rules
from accord_trace.reading import TraceError, lines_in, lines_of, trace_files
from accord_trace.records import decode_header

_NOT_READ = 2
_MAX_UNREAD = 10


@click.command("trace")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--side",
    type=click.Choice(["agent", "client", "both"]),
    help="Judge only this side [default: the subject of the recording, or both].",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--strict", is_flag=True, help="Fail on SHOULD rules too.")
def check_trace(
    file: IO[bytes],
    side: Literal["agent", "client", "both"] | None,
    as_json: bool,
    strict: bool,
) -> int:
    """Check a recorded conversation.

    FILE (- for stdin) has one JSON object per line: `time` in seconds, `from` ("client" or
    "agent") and `frame`. A plain dump with one frame per line works too: put `>` or `client:`
    before the client's frames and `<` or `agent:` before the agent's. Without these marks, the
    directions are guessed. Recordings of `accord trace` are read with their later parts, also
    compressed ones.

    If the first line is `{"subject": "agent"}`, which `accord check agent --trace` writes, only the
    agent is judged. Exit status 2: some lines cannot be read.
    """
    unread: list[str] = []
    try:
        observer = judge_recording(_lines(file, unread), judged=side, unread=unread)
    except (TraceError, ValueError) as error:
        why = "; ".join((*unread, str(error)))
        raise click.UsageError(f"{file.name}: {why}") from None
    if not observer.state.frames:
        raise click.UsageError(f"{file.name} has no frames")
    report = observer.finish()
    report.subject = file.name
    report.side = observer.only
    found = verdict(RunResult(file.name, [report], strict=strict))
    if as_json:
        click.echo(json_text(report.as_json()))
    else:
        show_report(report)
        if side is None and report.side is not None:
            click.echo(f"Only the {report.side} is judged, as {file.name} says; see --side.")
        show_verdict(found.text, found.status)
    for line in unread[:_MAX_UNREAD]:
        click.echo(f"{file.name}, {visible(line)}", err=True)
    if len(unread) > _MAX_UNREAD:
        click.echo(f"{file.name}: {len(unread)} lines could not be read", err=True)
    if unread:
        return _NOT_READ
    return found.status


def _lines(file: IO[bytes], unread: list[str]) -> Iterator[bytes]:
    """Yield the lines of a file, and those of the later parts of a recording of `accord trace`."""
    first = None
    for line in lines_in(file, file.name, unread):
        first = line if first is None else first
        yield line
    if first is not None and decode_header(first) is not None:
        for part in trace_files(file.name)[1:]:
            yield from lines_of(part, unread)


@click.command("rules")
@click.option(
    "--only",
    "--area",
    "only",
    metavar="NAME",
    multiple=True,
    help="Only the rules of this area, scenario or id. Repeatable.",
)
@click.option("--version", type=click.Choice(["1", "2"]), help="Only the rules of one version.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_rules(only: tuple[str, ...], version: str | None, as_json: bool) -> int:
    """List the rules, and how each is judged."""
    # The scenarios are slow to import, and `accord check trace` has no use for them.
    from accord_conformance.agent.scenarios import agent_scenarios
    from accord_conformance.chain.conductor_scenarios import conductor_scenarios
    from accord_conformance.chain.proxy_scenarios import proxy_scenarios
    from accord_conformance.client.scenarios import client_scenarios

    try:
        chosen = select_rules(
            only,
            [*agent_scenarios(), *client_scenarios(), *proxy_scenarios(), *conductor_scenarios()],
        )
    except UnknownName as unknown:
        raise click.UsageError(str(unknown)) from None
    found = [rule for rule in chosen if version is None or int(version) in rule.versions]
    if as_json:
        click.echo(json.dumps([to_builtins(rule) for rule in found], ensure_ascii=False, indent=2))
        return 0
    show_rules(found)
    return 0
