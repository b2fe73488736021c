"""`accord check client`: an agent that tests the client that starts it."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from msgspec import DecodeError, Struct, ValidationError, field, msgpack

from accord.text.excerpt import visible
from accord.transports.stdio import stdio
from accord_conformance.cli.report_files import check_writable, write_atomically
from accord_conformance.client.run import ClientRun
from accord_conformance.client.scenarios import client_scenarios, remote_client_scenarios
from accord_conformance.harness import RawConnection, trace_bytes
from accord_conformance.reports.formats import report_bytes
from accord_conformance.reports.report import RunResult, verdict
from accord_terminal.toolkit.options import TOKEN_VARIABLE, read_token, token_file_option

# Starts a client that died again, for the scenarios that it did not get to.
#
# The client starts its agent again, which is another process of the kit with the same report. Both
# share a file next to that report: what was found so far, and the names of the remaining scenarios.

_WAIT_S = 3600.0  # for a client that was started again


class Continuation(Struct, kw_only=True):
    """What a process of the kit leaves to the next one; `owner` started the client again."""

    owner: int
    result: RunResult
    remaining: list[str] = field(default_factory=list[str])


def continuation_file(report: Path) -> Path:
    """Return the file that the processes with this report share."""
    return report.with_name(f".{report.name.replace('{pid}', 'pid')}.rest")


def read_continuation(path: Path) -> Continuation | None:
    """Return what an earlier process has left, unless that process has ended."""
    try:
        found = msgpack.decode(path.read_bytes(), type=Continuation)
        os.kill(found.owner, 0)
    except (OSError, DecodeError, ValidationError):
        return None
    return found


def write_continuation(path: Path, owner: int, run: ClientRun) -> None:
    """Leave the findings of a run, and the scenarios that it did not get to."""
    rest = Continuation(owner=owner, result=run.result(), remaining=run.remaining())
    write_atomically(path, msgpack.encode(rest), private=True)


def restart_client(command: str, path: Path, run: ClientRun) -> RunResult:
    """Start the client again until no scenario remains; return the findings of all processes.

    A client that dies in each scenario is started as often as there are scenarios. It is not
    started again if the last start did not get to any.
    """
    result = run.result()
    remaining = run.remaining()
    try:
        while remaining:
            _explain(result, f"The client was started again for the other scenarios: {command}")
            rest = Continuation(owner=os.getpid(), result=result, remaining=remaining)
            write_atomically(path, msgpack.encode(rest), private=True)
            problem = _start(command)
            after = read_continuation(path)
            if after is None or len(after.remaining) >= len(remaining):
                _explain(result, f"Started again, it ran no scenario{problem}")
                break
            result, remaining = after.result, after.remaining
    finally:
        with suppress(OSError):
            path.unlink()
    return result


def _start(command: str) -> str:
    """Run the client until it ends; describe how, if that was not a success."""
    try:
        ended = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_WAIT_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f": {error}"
    return f": exit status {ended.returncode}" if ended.returncode else ""


def _explain(result: RunResult, words: str) -> None:
    """Add a sentence to the last scenario in which the client died."""
    if result.disconnects:
        last = result.disconnects[-1]
        last.advice = f"{last.advice} {words}.".strip()


# The command.

_KINDS = ("ws", "http")  # of URLs
_NOT_WRITTEN = 2
_HUNG_UP = 129
_SECONDS = click.FloatRange(0, min_open=True)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("client")
@click.option(
    "--report", type=_FILE, required=True, metavar="FILE", help="Write the report as JSON."
)
@click.option(
    "--version",
    "spoken",
    type=click.Choice(["1", "2", "both"]),
    default="both",
    show_default=True,
    help="Protocol versions to offer.",
)
@click.option(
    "--answer", type=int, metavar="N", help="Answer `initialize` with an unknown version."
)
@click.option("--login", is_flag=True, help="Require login before sessions are opened.")
@click.option(
    "--patience",
    type=_SECONDS,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the user at the client.",
)
@click.option(
    "--timeout",
    type=_SECONDS,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the client's responses.",
)
@click.option(
    "--junit", "junit_file", type=_FILE, metavar="FILE", help="Write the report as JUnit XML."
)
@click.option(
    "--markdown", "markdown_file", type=_FILE, metavar="FILE", help="Write the report as Markdown."
)
@click.option("--html", "html_file", type=_FILE, metavar="FILE", help="Write the report as HTML.")
@click.option("--trace", type=_FILE, metavar="FILE", help="Write all frames to a file.")
@click.option("--strict", is_flag=True, help="Fail on SHOULD rules too.")
@click.option(
    "--restart",
    metavar="COMMAND",
    help="Start the client again with this command if it dies, for the other scenarios.",
)
@click.option(
    "--serve", "serves", is_flag=True, help="Wait for the client on the network, not on stdin."
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on, with --serve."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on, with --serve  [default: a free one]",
)
@token_file_option
@click.option("--insecure", is_flag=True, help="Serve a client without a token, with --serve.")
def check_client(
    report: Path,
    spoken: str,
    answer: int | None,
    login: bool,
    patience: float,
    timeout: float,
    trace: Path | None,
    strict: bool,
    restart: str | None,
    serves: bool,
    host: str,
    port: int,
    token_file: Path | None,
    insecure: bool,
    **files: Path | None,
) -> int:
    """Run an agent that tests the client connected to it.

    Configure your client to start this command, open a session, and send `check: all`, or `check:
    list` for the names of the scenarios. The report is written at most once a second, after each
    scenario, and when the client disconnects. `{pid}` in the name of a file is replaced by the
    number of this process: a client may start several.

    A client that dies in a scenario leaves the others untested. With --restart, COMMAND starts it
    again: it has to start this agent with the same report, and send `check: all`.

    With --serve, the client connects by WebSocket or streamable HTTP. The address is printed, and
    the token, unless --token-file or ACCORD_TOKEN has one. The run ends when the client has gone.

    Exit status: 0 passed, 1 a MUST rule or a scenario failed, 2 usage error or a report could not
    be written, 70 error in the kit.
    """
    named = {"--report": report, "--trace": trace}
    named |= {f"--{name.removesuffix('_file')}": path for name, path in files.items()}
    outputs = {name: _own(path) for name, path in named.items() if path is not None}
    check_writable(outputs)
    if sys.stdin.isatty() and not serves:
        click.echo("This is an agent: configure the client under test to start it.", err=True)
    errors: dict[str, str] = {}
    connections: list[RawConnection] = []
    versions = (1, 2) if spoken == "both" else (int(spoken),)
    options: dict[str, Any] = {
        "versions": versions,
        "answer": answer,
        "login": login,
        "answer_s": timeout,
        "user_timeout_s": patience,
    }

    rest = continuation_file(report)
    before = None if serves else read_continuation(rest)

    def written(result: RunResult) -> None:
        result.strict = strict
        if before is not None:
            write_continuation(rest, before.owner, run)
        for name, path in outputs.items():
            if name == "--trace":
                data = trace_bytes(connections[-1])
            else:
                data = report_bytes(_format(name), result)
            try:
                write_atomically(path, data, private=name == "--trace")
            except OSError as error:
                errors[name] = f"{name}: cannot write {path}: {error.strerror}"
            else:
                errors.pop(name, None)

    async def serve() -> int:
        if sys.platform != "win32":
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            loop.add_signal_handler(signal.SIGTERM, run.terminate)
            loop.add_signal_handler(signal.SIGHUP, task.cancel)
        result = await run.run()
        result.strict = strict
        for error in result.kit_errors:
            click.echo(f"accord check client: error in the kit:\n{visible(error)}", err=True)
        return verdict(result).status

    async def serve_network() -> int:
        from accord_conformance.client.served_run import ServedRun

        def make_run(end: Any) -> ClientRun:
            one = ClientRun(
                end,
                remote_client_scenarios(),
                network=end,
                on_result=lambda _: written(served.result()),
                **options,
            )
            connections.append(one.connection)
            return one

        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            if sys.platform != "win32":
                loop.add_signal_handler(number, stop.set)
        token = None if insecure else read_token(token_file)
        made = secrets.token_urlsafe(32) if token is None and not insecure else None

        def listening(bound: int) -> None:
            shown = f"[{host}]" if ":" in host else host
            lines = [f"Waiting for a client on {kind}://{shown}:{bound}/acp" for kind in _KINDS]
            if made is not None:
                lines.append(f"Token (clients set {TOKEN_VARIABLE} or --token-file): {made}")
            click.echo("\n".join(lines), err=True)

        served = ServedRun(make_run, host=host, port=port, token=token or made)
        try:
            result = await served.run(stop, listening)
        except OSError as error:
            raise click.ClickException(f"Cannot listen on {host}:{port}: {error}") from None
        written(result)
        for error in result.kit_errors:
            click.echo(f"accord check client: error in the kit:\n{visible(error)}", err=True)
        found = verdict(result)
        click.echo(found.text, err=True)
        return found.status

    if serves:
        status = asyncio.run(serve_network())
        for line in errors.values():
            click.echo(f"accord check client: {line}", err=True)
        return _NOT_WRITTEN if errors else status
    if restart is not None and serves:
        raise click.UsageError("--restart is for a client that starts this agent, not for --serve")
    chosen = client_scenarios()
    if before is not None:
        chosen = [one for one in chosen if one.name in before.remaining]
        options["earlier"] = before.result
    run = ClientRun(stdio(restore=False), chosen, on_result=written, **options)
    connections.append(run.connection)
    try:
        status = asyncio.run(serve())
        if restart is not None and before is None and run.remaining():
            result = restart_client(restart, rest, run)
            written(result)
            status = verdict(result).status
    except asyncio.CancelledError:
        status = _HUNG_UP
    for line in errors.values():
        click.echo(f"accord check client: {line}", err=True)
    return _NOT_WRITTEN if errors else status


def _own(path: Path) -> Path:
    """Return the path with `{pid}` replaced by the number of this process."""
    return path.with_name(path.name.replace("{pid}", str(os.getpid())))


def _format(option: str) -> str:
    return "json" if option == "--report" else option.removeprefix("--")
