"""`accord bridge`: a remote agent as an agent on stdin and stdout."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from accord.errors import TransportError
from accord.local.run import run_program
from accord.transports.reconnect_settings import ConnectionChange, Reconnect
from accord.transports.reconnecting import ReconnectingTransport
from accord.transports.registry import RemoteOptions, is_url, transport_for_url
from accord.transports.relay import relay
from accord.transports.stdio import stdio
from accord_terminal.toolkit.options import connection_options, read_token


@click.command()
@click.argument("url")
@connection_options
def command(url: str, token_file: Path | None, ca_file: Path | None, insecure: bool) -> int:
    """Connect an editor to a remote agent: URL is its address, such as wss://build-7/acp.

    unix:PATH is an agent of `accord serve --unix PATH`.

    Configure this command in the editor as the command of an agent. Messages are passed on as
    they are. A lost connection is established again. The exit status is 0 if the editor ended the
    connection, and 1 if the agent cannot be reached.
    """
    if not is_url(url):
        raise click.UsageError(f"Expected the URL of an agent, such as wss://host/acp, got {url!r}")
    options = RemoteOptions(
        token=read_token(token_file), insecure=insecure, ca_file=ca_file, ends_when_cut=True
    )
    try:
        remote = transport_for_url(url, options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    async def run() -> Exception | None:
        reconnect = Reconnect(on_change=_show_connection)
        return await relay(stdio(restore=False), ReconnectingTransport(remote, reconnect))

    try:
        ended = run_program(run())
    except TransportError as error:
        ended = error
    if ended is None:
        return 0
    print(f"accord bridge: {ended}", file=sys.stderr)
    return 1


def _show_connection(change: ConnectionChange) -> None:
    if change.state == "connected":
        print("accord bridge: connected again", file=sys.stderr, flush=True)
    elif change.attempt == 1:
        print(f"accord bridge: {change.error}; connecting again", file=sys.stderr, flush=True)
