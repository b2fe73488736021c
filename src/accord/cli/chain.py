"""`accord chain`: proxies and an agent as one agent on stdin and stdout."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from accord.errors import TransportError
from accord.local.run import run_program
from accord.proxy.chain_file import ChainFileError, read_chain_file
from accord.proxy.conductor import conduct
from accord.proxy.parts import Component, component
from accord.transports.registry import is_url
from accord.transports.stdio import stdio

__all__ = ("command",)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("components", nargs=-1, metavar="[COMPONENT]... [AGENT]", type=click.UNPROCESSED)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read the components from a TOML file.",
)
def command(components: tuple[str, ...], config: Path | None) -> int:
    """Run proxies and an agent as one agent on stdin and stdout.

    Each COMPONENT is a proxy: a Python file, a command in one argument such as "python -m
    recorder", or an address such as ws://host/acp. The last one is the agent.

    Configure this command in the editor as the command of an agent. The components are started
    when the editor connects. If it connects as a conductor, by `proxy/initialize`, all components
    are proxies. The exit status is 0 if the editor ended the connection, and 1 if a component
    ended or could not be started; stderr has its name and its last words.
    """
    parts = _parts(components, config)

    async def run() -> Exception | None:
        return await conduct(parts, stdio(restore=False))

    try:
        ended = run_program(run())
    except TransportError as error:
        ended = error
    if ended is None:
        return 0
    print(f"accord chain: {ended}", file=sys.stderr)
    return 1


def _parts(components: tuple[str, ...], config: Path | None) -> list[Component]:
    if (config is not None) == bool(components):
        raise click.UsageError("Expected components, or --config FILE")
    try:
        if config is not None:
            return read_chain_file(config, _show)
        return [_component(text) for text in components]
    except (ValueError, ChainFileError) as error:
        raise click.UsageError(str(error)) from None


def _component(text: str) -> Component:
    if is_url(text):
        return component(text)
    return component(text, on_stderr=lambda line: _show(text, line))


def _show(name: str, line: str) -> None:
    """Pass on what a component writes to stderr: editors log it."""
    print(f"[{name}] {line}", file=sys.stderr, flush=True)
