"""`accord trace replay`: acts as the recorded agent, or as the recorded client."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import click
from click.core import ParameterSource

from accord.errors import TransportError
from accord.local.run import run_program
from accord.transports.base import TransportFactory, opened
from accord.transports.process import process
from accord.transports.registry import RemoteOptions, is_url, transport_for_url
from accord.transports.stdio import stdio
from accord_terminal.toolkit.options import connection_options, own_path, read_token
from accord_terminal.trace import (
    Unreadable,
    directions,
    first_option,
    open_only_trace,
    output_text,
    refuse_recording,
    report_waiting,
    show_problems,
)
from accord_trace.reading import TraceError
from accord_trace.replay.agent import AgentReplay, Departure
from accord_trace.replay.client import ClientReplay
from accord_trace.replay.comparison import Difference
from accord_trace.replay.script import Script, read_scripts
from accord_trace.replay.serving import ReplayServer

_SAME, _DIFFERENT, _CANNOT_RUN = 0, 1, 2
_ONLY_AS_AGENT = ("report",)
_ONLY_AS_CLIENT = ("as_json", "cwd", "timeout", "token_file", "ca_file", "insecure")
_COLOURS = {"-": "red", "+": "green", "~": "yellow", "!": "red"}


@click.command("replay")
@click.argument("recording", type=click.Path(exists=True, path_type=Path))
@click.argument("agent", metavar="[URL | -- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--as",
    "side",
    type=click.Choice(["agent", "client"]),
    default="agent",
    show_default=True,
    help="The recorded side to be.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0),
    default=0.0,
    metavar="X",
    help="0: as fast as possible (the default); 1: as recorded; 2: twice as fast.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="As agent: answer requests that depart from the recording with an error. As client: "
    "compare all values except ids and times.",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    metavar="DIRECTORY",
    help="As client: the directory of the sessions [default: .].",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="As client: time limit of each response.",
)
@click.option("--json", "as_json", is_flag=True, help="As client: print the result as JSON.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="As agent: write the departures as JSON at the end. `{pid}` is replaced by the number of "
    "this process.",
)
@connection_options
@first_option
def command(
    recording: Path,
    agent: tuple[str, ...],
    side: str,
    speed: float,
    strict: bool,
    cwd: Path,
    timeout: float,
    as_json: bool,
    report: Path | None,
    token_file: Path | None,
    ca_file: Path | None,
    insecure: bool,
    first: str,
) -> int:
    """Act as the agent of a recording, for a client that starts this command.

    Requests are matched by method and params; ids and directories are replaced by those of the
    client. Where the client departs from the recording, stderr says so, and the best match is used.

    With `--as client`, send what the recorded client sent to an agent, and compare what it sends.
    COMMAND starts the agent; URL is the address of an agent on the network, such as
    wss://host/acp. Exit status: 0 same, 1 different, 2 cannot run.
    """
    _refuse_other_side(side, agent)
    try:
        trace = open_only_trace(recording, first=directions[first])
        if report is not None:
            refuse_recording("--report", own_path(report), trace)
            if not report.parent.is_dir():  # before the client comes, not at the end
                raise Unreadable(f"Cannot write {report}: No such file or directory")
        next(iter(trace), None)
    except TraceError as error:  # as the other commands say it
        raise Unreadable(str(error)) from None
    try:
        script, *others = read_scripts(trace.with_damaged())
    except TraceError as error:
        raise Unreadable(f"{recording}: {error}") from None
    show_problems(trace.problems)
    if others:
        _say(f"replaying the first of {len(others) + 1} connections")
    if script.redacted:
        count = f"{script.redacted} message{'' if script.redacted == 1 else 's'}"
        _say(f"secrets were replaced in {count}: `[redacted]` is sent instead")
    if side == "agent":
        return _run_agent(script, speed, strict, report)
    options = RemoteOptions(token=read_token(token_file), insecure=insecure, ca_file=ca_file)
    transport = _transport(agent, options, cwd)
    return _run_client(script, transport, speed, strict, cwd, timeout, as_json)


def _refuse_other_side(side: str, agent: Sequence[str]) -> None:
    """Raise `click.UsageError` for what only the other side has: it would not be used."""
    if side == "agent" and agent:
        raise click.UsageError("Expected no command: to test an agent, add `--as client`")
    if side == "client" and not agent:
        raise click.UsageError("Missing the agent: accord trace replay FILE --as client -- COMMAND")
    context = click.get_current_context()
    for name in _ONLY_AS_AGENT if side == "client" else _ONLY_AS_CLIENT:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = "--json" if name == "as_json" else f"--{name.replace('_', '-')}"
            other = "agent" if side == "client" else "client"
            raise click.UsageError(f"{option} is for `--as {other}`")


def _run_agent(script: Script, speed: float, strict: bool, report: Path | None) -> int:
    def show(departure: Departure) -> None:
        _say(f"departure {len(replay.departures)}: {departure}")

    replay = AgentReplay(script, speed=speed, strict=strict, on_departure=show)
    report_waiting("replay")
    try:
        run_program(ReplayServer(replay, stdio(restore=False), noise=True).run())
    except TransportError as error:
        _say(str(error))
        return _CANNOT_RUN
    finally:
        result = replay.report()
        if result.unused:
            _say(f"not used: {', '.join(map(str, result.unused[:5]))}" + _more(result.unused))
        if report is not None:
            output_text(own_path(report), json.dumps(result.to_json(), indent=2) + "\n")
    return _SAME


def _run_client(
    script: Script,
    transport: TransportFactory,
    speed: float,
    strict: bool,
    cwd: Path,
    timeout: float,
    as_json: bool,
) -> int:
    directory = str(cwd.absolute())

    async def run() -> tuple[list[Difference], int]:
        replay = ClientReplay(
            script,
            await opened(transport),
            cwd=directory,
            timeout_s=timeout,
            speed=speed,
        )
        return await replay.run(strict=strict), replay.compared

    try:
        differences, compared = run_program(run())
    except TransportError as error:
        _say(str(error))
        return _CANNOT_RUN
    if as_json:
        result = {
            "same": not differences,
            "messages": compared,
            "differences": [one.to_json() for one in differences],
        }
        click.echo(json.dumps(result, indent=2))
    else:
        if sys.stdout.isatty():
            _show_grouped(differences, shutil.get_terminal_size().columns)
        else:
            for one in differences:
                click.echo(str(one))
        count = f"{len(differences)} difference{'' if len(differences) == 1 else 's'}"
        click.echo(f"{count if differences else 'same'}: {compared} messages of the agent compared")
    return _DIFFERENT if differences else _SAME


def _show_grouped(differences: Sequence[Difference], columns: int) -> None:
    """Print what is different of each message below its name, in lines that fit the terminal."""
    before = ""
    for one in differences:
        text = str(one)
        head, _, rest = text.partition(f": {one.path}: " if one.kind == "changed" else ": ")
        if one.kind != "changed" or head != before:
            shown = head if one.kind == "changed" else text
            for line in wrap(shown, columns, subsequent_indent="    "):
                click.secho(line, fg=_COLOURS[text[0]])
        if one.kind == "changed":
            words = f"{one.path}: {rest}"
            for line in wrap(words, columns, initial_indent="    ", subsequent_indent="      "):
                click.echo(line)
        before = head


def _transport(agent: tuple[str, ...], options: RemoteOptions, cwd: Path) -> TransportFactory:
    given, *words = agent
    if words or not is_url(given):
        return process(given, *words, cwd=cwd, on_stderr=_show_stderr)
    try:
        return transport_for_url(given, options)
    except (ValueError, ModuleNotFoundError) as error:
        raise click.UsageError(str(error)) from None


def _show_stderr(line: str) -> None:
    click.echo(line, err=True)


def _more(items: Sequence[object]) -> str:
    return f", and {len(items) - 5} more" if len(items) > 5 else ""


def _say(text: str) -> None:
    print(f"accord trace replay: {text}", file=sys.stderr, flush=True)
