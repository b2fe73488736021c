"""`accord check`: tells whether an agent, or a client, keeps the rules of the protocol."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import IO, Any, Literal

import click

from accord.text.excerpt import visible
from accord_conformance.cli import check_agent, check_client

__all__ = ("command",)

_NOT_READ = 2
_MAX_UNREAD = 10

_Function = Callable[..., Any]


@click.group()
def command() -> None:
    """Check that an agent or a client keeps the rules of the protocol.

    The exit status is 1 when a MUST of the schema or of the text of the protocol was broken. Broken
    SHOULDs, rules that only the reference SDKs demand, and rules that Accord derived decide with
    --strict.
    """
    if (reconfigure := getattr(sys.stdout, "reconfigure", None)) is not None:
        reconfigure(errors="replace")  # what it has no characters for


def _reporting(function: _Function) -> _Function:
    """Add what all commands that report have in common."""
    function = click.option("--strict", is_flag=True, help="Fail on warnings and advice, too.")(
        function
    )
    return click.option("--json", "as_json", is_flag=True, help="Write the report as JSON.")(
        function
    )


@command.command("rules")
@click.option(
    "--only",
    "--area",
    "only",
    metavar="NAME",
    multiple=True,
    help="Only this area, as CANCEL, or rule, as R-CANCEL-05, or those of a scenario.",
)
@click.option("--version", type=click.Choice(["1", "2"]), help="Only those of one version.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON array.")
def _rules(only: tuple[str, ...], version: str | None, as_json: bool) -> int:
    """List the rules, and who judges them."""
    from msgspec import to_builtins

    from accord_conformance.agent.scenarios import agent_scenarios
    from accord_conformance.client.scenarios import client_scenarios
    from accord_conformance.rules.selection import UnknownName, select_rules

    try:
        chosen = select_rules(only, [*agent_scenarios(), *client_scenarios()])
    except UnknownName as unknown:
        raise click.UsageError(str(unknown)) from None
    found = [rule for rule in chosen if version is None or int(version) in rule.versions]
    if as_json:
        click.echo(json.dumps([to_builtins(rule) for rule in found], ensure_ascii=False, indent=2))
        return 0
    from accord_conformance.cli.show_report import show_rules

    show_rules(found)
    return 0


@command.command("trace")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--side",
    type=click.Choice(["agent", "client", "both"]),
    help="Judge this side alone. Without it both, or who a trace of `accord check` is about.",
)
@_reporting
def _trace(
    file: IO[bytes],
    side: Literal["agent", "client", "both"] | None,
    as_json: bool,
    strict: bool,
) -> int:
    """Judge a recorded conversation.

    FILE (- for stdin) has one JSON object per line: `time` in seconds, `from` ("client" or
    "agent") and `frame`. A plain dump, with a frame per line, does as well: `>` or `client:`
    before what the client wrote and `<` or `agent:` before what the agent wrote, or nothing,
    and the directions are guessed.

    A first line `{"subject": "agent"}`, which `accord check agent --trace` writes, says that only
    the agent is to be judged. The exit status is 2 when some lines cannot be read.
    """
    from accord_conformance.reports.run_result import RunResult, verdict
    from accord_conformance.traffic.recording import judge_recording

    unread: list[str] = []
    try:
        observer = judge_recording(file, judged=side, unread=unread)
    except ValueError as error:
        raise click.UsageError(f"{file.name}: {error}") from None
    if not observer.state.frames:
        raise click.UsageError(f"{file.name} has no frames")
    report = observer.finish()
    report.subject = file.name
    report.side = observer.only
    found = verdict(RunResult(file.name, [report], strict=strict))
    if as_json:
        from accord_conformance.reports.json_text import json_text

        click.echo(json_text(report.as_json()))
    else:
        from accord_conformance.cli.show_report import show_report, show_verdict

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


command.add_command(check_agent.agent)
command.add_command(check_agent.init)
command.add_command(check_client.client)
