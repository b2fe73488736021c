"""`accord inspect`: shows messages on a web page, live or from a recording.

First what the words of the command line mean (recordings, commands, addresses, classes), then the
server, which runs until a signal or the inspection ends it, then the command.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import click
from msgspec import Struct

from accord.errors import AccordError
from accord.remote.server import ServerOptions, Stop, run_server
from accord.remote.sockets import address_of, open_tcp
from accord.transports.base import Transport, opened
from accord.transports.command_line import find_program
from accord.transports.process import process
from accord.transports.registry import RemoteOptions, is_loopback, is_url, transport_for_url
from accord_inspector.app import InspectorApp, PageAccess
from accord_inspector.inspection import Inspection
from accord_inspector.live_inspection import AgentInspection, AgentOutput, AgentStarter
from accord_inspector.recording_inspection import FolderInspection, RecordingInspection
from accord_inspector.tap_inspection import TapInspection
from accord_terminal.toolkit.agent_names import load_settings, named_agents
from accord_terminal.toolkit.options import TOKEN_VARIABLE, own_path, read_token, token_file_option
from accord_trace.reading import TraceError, is_pipe, open_trace

_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
# Runs a class, or an instance, in a process of its own.
_RUN_CLASS = (
    "import sys; from importlib import import_module; "
    "found = getattr(import_module(sys.argv[1]), sys.argv[2]); "
    "(found() if isinstance(found, type) else found).run()"
)


class LiveOptions(Struct, frozen=True, kw_only=True):
    """The options for an agent that runs."""

    output: Path | None = None
    redact: bool = True
    token: str | None = None
    tap: bool = False


class AgentTarget(Struct, frozen=True):
    """The command or the URL of an agent, and changes of its environment."""

    words: list[str]
    env: dict[str, str] = {}
    title: str = ""


def agent_target(target: str) -> AgentTarget | None:
    """Return the agent that a word names: a URL, `module:Class`, or a name; None for a path."""
    if is_url(target):
        return AgentTarget([target])
    if Path(target).exists():
        return None
    if _CLASS.fullmatch(target):
        module, _, name = target.partition(":")
        return AgentTarget([sys.executable, "-c", _RUN_CLASS, module, name], title=target)
    named = named_agents(load_settings()).get(target)
    return None if named is None else AgentTarget(list(named.argv), env=dict(named.entry.env))


def shown_target(target: str) -> Callable[[], Inspection]:
    """Return what shows a recording or a folder; raise `TraceError` if it cannot be read."""
    path = Path(target)
    if not path.exists():
        raise TraceError(
            f"{target} does not exist: expected a recording, a folder, the URL of an agent, or -- "
            "and a command"
        )
    if path.is_dir():
        folder = _recordings_of(path)
        return lambda: FolderInspection(folder)
    if is_pipe(path):
        raise TraceError(f"Expected a file or a folder, got the pipe {target}: save it as a file")
    next(iter(open_trace(path)), None)  # another file is an error now, not on the page
    return lambda: RecordingInspection(path)


def _recordings_of(folder: Path) -> Path:
    """Return the folder itself, or that of the recordings in the results of a fleet."""
    traces = folder / "traces"
    return traces if (folder / "run.json").is_file() and traces.is_dir() else folder


def live_inspection(agent: AgentTarget, options: LiveOptions) -> Callable[[], Inspection]:
    """Return what runs an agent; raise `StartError` or `ValueError` if it cannot be started."""
    words = agent.words
    url = words[0] if is_url(words[0]) else None
    if url is None:
        find_program(words[0], None, dict(os.environ))
    start = _command_starter(agent) if url is None else _url_starter(url, options)
    title = url or agent.title or shlex.join(words)
    output = None if options.output is None else own_path(options.output)
    if options.tap:
        if url is not None:
            raise ValueError("--tap is for commands: for a remote agent, use `accord bridge` in it")
        return lambda: TapInspection(
            words, env=agent.env, title=title, output=output, redact=options.redact
        )
    return lambda: AgentInspection(
        start, command=words, title=title, output=output, redact=options.redact
    )


def _command_starter(agent: AgentTarget) -> AgentStarter:
    async def start(output: AgentOutput) -> Transport:
        return process(
            *agent.words,
            env=agent.env,
            on_stderr=output.on_stderr,
            on_stdout_noise=output.on_noise,
            noise_limit=None,  # the page shows it
        )()

    return start


def _url_starter(url: str, options: LiveOptions) -> AgentStarter:
    factory = transport_for_url(url, RemoteOptions(token=options.token))

    async def start(_output: AgentOutput) -> Transport:
        return await opened(factory)

    return start


PORT = 8766


def listening_socket(host: str, port: int | None) -> socket.socket:
    """Return a socket for the page; None is port 8766, or a free one if that is in use.

    Raise `OSError` if the address cannot be used.
    """
    if port is not None:
        return open_tcp(host, port)
    try:
        return open_tcp(host, PORT)
    except OSError:
        return open_tcp(host, 0)


async def serve_inspection(
    make: Callable[[], Inspection], opened: socket.socket, started: Callable[[str], None]
) -> int:
    """Run an inspection and serve its page until a signal or the inspection ends it.

    `started` is called with the address of the page, which has the token in it. Return the exit
    status.
    """
    stop = Stop()
    inspection = make()
    _on_signals(lambda number: inspection.pass_signal(number) or stop.request())
    host, port = address_of(opened)
    access = PageAccess(hosts=[host])
    shown = f"[{host}]" if ":" in host else host
    async with inspection:
        app = InspectorApp(inspection, inspection.hub, access)
        address = f"http://{shown}:{port}{access.start_path}"
        options = ServerOptions(passed=[opened], drain_s=0.0)
        inspection.spawn(_stop_when_finished(inspection, stop))

        def show(_: object) -> None:
            if not inspection.finished.is_set():
                started(address)

        await run_server(app, options, show, stop)
        if stop.at_once.is_set():
            os._exit(1)  # the agents of this process are ended by their guardian
    return inspection.exit_status


async def _stop_when_finished(inspection: Inspection, stop: Stop) -> None:
    await inspection.finished.wait()
    stop.requested.set()


def _on_signals(handle: Callable[[int], object]) -> None:
    """Call this for Ctrl-C, SIGTERM and SIGHUP."""
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is None:
            continue
        if sys.platform == "win32":
            signal.signal(number, lambda got, _: loop.call_soon_threadsafe(handle, got))
        else:
            loop.add_signal_handler(number, handle, number)


_AGENT = "accord_inspector.agent"  # the words after `--`


class _InspectCommand(click.Command):
    """Keeps the words after `--` apart: they are a command, also if a file has its name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_AGENT] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "RECORDING | FOLDER | URL | MODULE:CLASS | -- COMMAND…"]


@click.command("inspect", cls=_InspectCommand)
@click.argument("target", required=False)
@click.option("--tap", is_flag=True, help="Be an agent for an editor: pass everything through.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the recording of a live agent, such as r.acp.jsonl; `{pid}` is replaced by the "
    "number of this process.",
)
@click.option("--no-redact", is_flag=True, help="Keep secrets: environment, headers, logins.")
@token_file_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the page.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Port of the page; 0 is a free one. Default: {PORT}, or a free one if it is in use.",
)
@click.option("--no-open", is_flag=True, help="Do not open the page in the browser.")
@click.pass_context
def command(
    ctx: click.Context,
    target: str | None,
    tap: bool,
    output: Path | None,
    no_redact: bool,
    token_file: Path | None,
    host: str,
    port: int | None,
    no_open: bool,
) -> int:
    """Show every message between a client and an agent on a web page.

    \b
    accord inspect -- my-agent --acp         talk to an agent and watch it
    accord inspect --tap -- my-agent --acp   an agent for your editor's settings
    accord inspect r.acp.jsonl               a recording, or a folder of them
    accord inspect wss://host/acp            a remote agent

    MODULE:CLASS is an `accord.Agent`. The address of the page is printed: it opens the page in
    any browser of this machine, once for each. Ctrl-C stops the agent and the page.
    """
    words: list[str] | None = ctx.meta.get(_AGENT)
    token = read_token(token_file)
    os.environ.pop(TOKEN_VARIABLE, None)  # the agent does not get it
    options = LiveOptions(output=output, redact=not no_redact, token=token, tap=tap)
    try:
        make = _inspection(target, words, options)
    except (AccordError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    try:
        opened = listening_socket(host, port)
    except OSError as error:
        at = host if port is None else f"{host}:{port}"
        raise click.ClickException(f"Cannot listen on {at}: {_reason(error)}") from None

    def started(address: str) -> None:
        click.echo(f"Inspect at {address}", err=tap)
        if not is_loopback(host):
            click.echo("Warning: the page is not encrypted, and others can reach it", err=True)
        if not no_open:
            _open_browser(address)

    try:
        with opened:
            return asyncio.run(serve_inspection(make, opened, started))
    except (AccordError, OSError) as error:
        raise click.ClickException(str(error)) from None


def _inspection(
    target: str | None, words: list[str] | None, options: LiveOptions
) -> Callable[[], Inspection]:
    """Return what makes the inspection; raise an error if it is clear that it cannot work."""
    if (target is None) == (not words):
        raise click.UsageError(
            "Expected a recording, a folder, the URL of an agent, or -- and a command"
        )
    if words:
        return live_inspection(AgentTarget(words), options)
    assert target is not None
    agent = agent_target(target)
    if agent is not None:
        return live_inspection(agent, options)
    if options.tap or options.output is not None:
        raise click.UsageError("--tap and -o are for agents: put the command after --")
    return shown_target(target)


def _reason(error: OSError) -> str:
    """Return why, without the address that the library adds: its port may be that of a retry."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _open_browser(address: str) -> None:
    """Open the page, unless this is a terminal without windows."""
    has_windows = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if has_windows:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
