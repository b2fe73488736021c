"""`accord inspect`: shows messages on a web page, live or from a recording."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import click

from accord.errors import AccordError
from accord.transports.registry import is_loopback
from accord_inspector.inspection import Inspection
from accord_inspector.serving import PORT, listening_socket, serve_inspection
from accord_inspector.targets import (
    AgentTarget,
    LiveOptions,
    agent_target,
    live_inspection,
    shown_target,
)
from accord_terminal.toolkit.options import TOKEN_VARIABLE, read_token, token_file_option

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
