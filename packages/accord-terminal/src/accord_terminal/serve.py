"""`accord serve`: an agent for clients on the network."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click

from accord.agent.agent import Agent
from accord.errors import AccordError, StartError
from accord.installed import install_command
from accord.program import load_program
from accord.remote.access import ConnectionLimits
from accord.remote.asgi import asgi
from accord.transports.command_line import find_program
from accord.transports.registry import DEFAULT_PATH, is_url
from accord_terminal.toolkit.agent_names import (
    SettingsError,
    command_by_name,
    is_object,
    object_command,
)
from accord_terminal.toolkit.endpoint import Endpoint, endpoint_options
from accord_terminal.toolkit.options import (
    budget_options,
    limited_command,
    limits_of,
)

PORT = 8765
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("agent", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--chain",
    type=_FILE,
    metavar="FILE",
    help="Serve the chain of this file, as `accord chain --config FILE`; it is started for each "
    "connection.",
)
@click.option(
    "--path", default=DEFAULT_PATH, show_default=True, help="Path of the agent in the URL."
)
@click.option(
    "--allow-mcp",
    multiple=True,
    metavar="WHAT",
    help="MCP servers that clients may name: stdio (commands), private (addresses of private "
    "networks), HOST[:PORT], or none. Repeatable. Default: all on this machine, else none.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    default=ConnectionLimits().connections,
    show_default=True,
    help="Connections at the same time.",
)
@click.option(
    "--max-starts",
    type=click.IntRange(1),
    default=ConnectionLimits().starts_per_minute,
    show_default=True,
    help="Connections opened in one minute; a command is started for each.",
)
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(0),
    default=ConnectionLimits().idle_s,
    show_default=True,
    metavar="SECONDS",
    help="Close a connection after this time without a message and a running turn; 0: never.",
)
@click.option(
    "--ping-interval",
    "ping_interval_s",
    type=click.FloatRange(0),
    default=ConnectionLimits().ping_interval_s,
    show_default=True,
    metavar="SECONDS",
    help="Time between the pings that a WebSocket client must answer; 0: none. "
    "Shorter than the idle time of proxies.",
)
@budget_options
@endpoint_options(PORT)
def command(
    agent: tuple[str, ...],
    chain: Path | None,
    path: str,
    allow_mcp: tuple[str, ...],
    max_connections: int,
    max_starts: int,
    idle_s: float,
    ping_interval_s: float,
    budget: str | None,
    unmetered: tuple[str, ...],
    **listen: Any,
) -> int:
    """Serve an agent to clients, by WebSocket and HTTP.

    AGENT is a name from `accord agents`; or the command of an agent on stdin and stdout, after
    `--`; or MODULE:OBJECT, an `accord.Agent` or what `accord run` takes. A command is started for
    each connection. Without AGENT the bundled agent is served.

    Clients need a token: that of --token-file, that of ACCORD_TOKEN, or a new one, which is
    printed at the start. On a Unix socket (--unix, unix:PATH for clients) they need no token.
    Sockets that systemd passes replace --host, --port and --unix.

    On SIGTERM and Ctrl-C the server starts no more turns, disconnects each client without a
    running turn, and exits with status 0. A second signal ends it at once.
    """
    if chain is not None:
        if agent:
            raise click.UsageError("Expected an agent or --chain FILE, got both")
        agent = (sys.executable, "-m", "accord", "chain", "--config", str(chain.absolute()))
    if limits_of(budget, unmetered) is not None:
        agent = _limited(agent, budget or "", unmetered)
    if not path.startswith("/"):
        raise click.UsageError(f"--path: expected a path that begins with /, got {path!r}")
    endpoint = Endpoint(**listen)
    if endpoint.only_unix and not allow_mcp:
        allow_mcp = ("stdio", "private")  # clients are processes of the same user
    try:
        app = asgi(
            _agent(agent),
            path=path,
            allow_mcp=[what for what in allow_mcp if what != "none"] if allow_mcp else None,
            limits=ConnectionLimits(
                connections=max_connections,
                per_principal=max_connections,
                starts_per_minute=max_starts,
                idle_s=idle_s,
                ping_interval_s=ping_interval_s,
            ),
            **endpoint.access(),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    def announce(address: str) -> list[str]:
        if address.startswith("unix:"):
            return [f"Serving on {address}"]
        return [f"Serving on {address.replace('http', 'ws', 1)}{path} and {address}{path}"]

    endpoint.serve(app, lambda: app.running_turns, announce)
    return 0


def _limited(agent: tuple[str, ...], budget: str, unmetered: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of a chain that keeps a command within limits."""
    words = list(object_command(agent[0])) if _names_object(agent) else _agent(agent)
    return limited_command(cast("list[str]", words), budget, unmetered)


def _agent(words: tuple[str, ...]) -> Any:
    """Return what to serve: a class, or a command."""
    if not words:
        return [sys.executable, "-m", "accord", "agent"]
    target = words[0]
    if len(words) == 1:
        try:
            if (by_name := command_by_name(target)) is not None:
                return by_name
        except SettingsError as error:
            raise click.UsageError(str(error)) from None
    if is_url(target):
        raise click.UsageError(
            f"{target} is the URL of an agent, which is served already;"
            f" to pass it on: accord serve -- accord bridge {target}"
        )
    if not _names_object(words):
        try:
            find_program(target, None, None)
        except StartError as error:
            raise click.UsageError(
                f"Expected the command of an agent, its name, or MODULE:OBJECT. {error}"
            ) from None
        return list(words)
    return _object(target)


def _names_object(words: tuple[str, ...]) -> bool:
    return len(words) == 1 and is_object(words[0])


def _object(target: str) -> Any:
    """Return an `accord.Agent`, or the agent that runs an object of a framework."""
    load = load_program("object", "accord_bridges")
    if load is None:
        return _agent_class(target)
    try:
        return load(target)
    except AccordError as error:
        raise click.UsageError(str(error)) from None


def _agent_class(target: str) -> Any:
    """Return an `accord.Agent` without the package of the bridges."""
    module, _, name = target.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise click.UsageError(f"{target} cannot be imported: {error}") from None
    if not (isinstance(found, Agent) or (isinstance(found, type) and issubclass(found, Agent))):
        raise click.UsageError(
            f"{target}: expected an accord.Agent, got {found!r}; objects of frameworks need more"
            f" packages: {install_command('bridges')}"
        )
    return found
