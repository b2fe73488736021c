"""`accord chain` and `accord bridge`: proxies or a remote agent as one agent on stdin and stdout.

Editors start both, and each imports only what it needs itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accord.errors import AccordError, TransportError
from accord.local.run import run_program
from accord.transports.registry import RemoteOptions, is_url, transport_for_url
from accord.transports.stdio import stdio
from accord_terminal.toolkit.options import (
    budget_options,
    connection_options,
    ledger_of,
    limits_of,
    max_size_option,
    no_redact_option,
    read_token,
)

if TYPE_CHECKING:
    from accord.proxy.conductor import Component
    from accord.proxy.hop import HopObserver
    from accord.transports.registry import ConnectionChange


@click.command()
@click.argument("url")
@connection_options
def bridge_command(url: str, token_file: Path | None, ca_file: Path | None, insecure: bool) -> int:
    """Connect an editor to a remote agent: URL is its address, such as wss://build-7/acp.

    unix:PATH is an agent of `accord serve --unix PATH`.

    Configure this command in the editor as the command of an agent. Messages are passed on as
    they are. A lost connection is established again. The exit status is 0 if the editor ended the
    connection, and 1 if the agent cannot be reached.
    """
    from accord.transports.memory import relay
    from accord.transports.reconnecting import ReconnectingTransport
    from accord.transports.registry import Reconnect

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


@click.command()
@click.argument("components", nargs=-1, metavar="[COMPONENT]... [AGENT]", type=click.UNPROCESSED)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read the components from a TOML file.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Record every hop, for `accord trace`.",
)
@budget_options
@click.option("--account", hidden=True)  # all sessions count as one of this name
@no_redact_option
@max_size_option
@click.option(
    "--explain", "explains", is_flag=True, help="Show what each component changes, and exit."
)
def command(
    components: tuple[str, ...],
    config: Path | None,
    trace: Path | None,
    budget: str | None,
    unmetered: tuple[str, ...],
    account: str | None,
    no_redact: bool,
    max_size: float | None,
    explains: bool,
) -> int:
    """Run proxies and an agent as one agent on stdin and stdout.

    Each COMPONENT is a proxy: a Python file, a command in one argument such as "python -m
    recorder", or an address such as ws://host/acp. The last one is the agent, which can also be a
    name from `accord agents`. A file (--config) has further settings of each component: its
    folder, environment, token and dialect.

    With --budget, the turn that reaches a limit is cancelled, and what may not be touched is
    rejected before the editor asks.

    Configure this command in the editor as the command of an agent. The components are started
    when the editor connects. If it connects as a conductor, by `proxy/initialize`, all components
    are proxies. The exit status is 0 if the editor ended the connection, and 1 if a component
    ended or could not be started; stderr has its name and its last words.
    """
    from accord.proxy.conductor import conduct, with_unique_names

    parts = _parts(components, config)
    if (limits := limits_of(budget, unmetered)) is not None:
        from accord.proxy.budget import BudgetProxy
        from accord.proxy.chain import component

        # That of the connection, if `accord serve` has started this chain.
        ledger = ledger_of(limits, principal=os.environ.get("ACCORD_PRINCIPAL", ""))
        # Next to the agent: what other components make it do counts, too.
        parts.insert(
            len(parts) - 1,
            component(BudgetProxy(limits, ledger=ledger, account=account), name="budget"),
        )
    if explains:
        return _explain(parts)
    recording: AbstractContextManager[HopObserver | None] = nullcontext()
    if trace is not None:
        from accord_terminal.trace.record import recorded

        parts = with_unique_names(parts)
        recording = recorded(trace, parts, redact=not no_redact, max_size=max_size)
    elif no_redact or max_size is not None:
        raise click.UsageError("--no-redact and --max-size are for --trace FILE")

    async def run(observers: Sequence[HopObserver]) -> Exception | None:
        return await conduct(parts, stdio(restore=False), observers)

    with recording as recorder:
        observers = [] if recorder is None else [recorder]
        try:
            ended = run_program(run(observers))
        except TransportError as error:
            ended = error
    if ended is None:
        return 0
    print(f"accord chain: {ended}", file=sys.stderr)
    return 1


def _explain(parts: list[Component]) -> int:
    from accord.proxy.chain import explain

    try:
        print(run_program(explain(parts)), end="")
    except (AccordError, TimeoutError) as error:
        print(f"accord chain: {error}", file=sys.stderr)
        return 1
    return 0


def _parts(components: tuple[str, ...], config: Path | None) -> list[Component]:
    from accord.proxy.chain import ChainFileError, read_chain_file

    if (config is not None) == bool(components):
        raise click.UsageError("Expected components, or --config FILE")
    try:
        if config is not None:
            return read_chain_file(config, _show)
        return [_component(text) for text in components]
    except (ValueError, ChainFileError) as error:
        raise click.UsageError(str(error)) from None


def _component(text: str) -> Component:
    from accord.proxy.chain import component
    from accord_terminal.toolkit.agent_names import SettingsError, command_by_name

    if is_url(text):
        return component(text)
    try:
        by_name = command_by_name(text)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    if by_name is not None:
        return component(by_name, name=text, on_stderr=lambda line: _show(text, line))
    return component(text, on_stderr=lambda line: _show(text, line))


def _show(name: str, line: str) -> None:
    """Pass on what a component writes to stderr: editors log it."""
    print(f"[{name}] {line}", file=sys.stderr, flush=True)
