"""`accord gateway`: agents behind other protocols, at one address with one token."""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from accord.remote.access import Access
from accord_bridges.gateways import PROTOCOLS, gateway
from accord_bridges.gateways.turns import GatewaySettings
from accord_terminal.sessions.records import Approvals, SessionsError
from accord_terminal.toolkit.agent_names import (
    DEFAULT,
    AgentEntry,
    NamedAgent,
    SettingsError,
    complete_name,
    find_agent,
    is_object,
    load_settings,
    named_agents,
)
from accord_terminal.toolkit.endpoint import Endpoint, endpoint_options

PORT = 8766
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_DEFAULTS = GatewaySettings()


def _check_rules(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    from accord.types.tool_calls import rule_error

    if value and (error := rule_error(value)) is not None:
        raise click.BadParameter(error)
    return value


@click.command("gateway", context_settings={"ignore_unknown_options": True})
@click.argument("agents", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_name)
@click.option(
    "--only",
    metavar="PROTOCOLS",
    help=f"Protocols to serve, separated by commas: {', '.join(PROTOCOLS)}. Default: all.",
)
@click.option(
    "--cwd",
    type=_FOLDER,
    default=Path(),
    help="Working directory of the sessions. Default: the current one.",
)
@click.option(
    "--root",
    "roots",
    type=_FOLDER,
    multiple=True,
    help="Directory below which a request may choose its working directory. Repeatable.",
)
@click.option("--scratch", is_flag=True, help="Give each session an empty directory of its own.")
@click.option(
    "--allow",
    "allow_rules",
    metavar="RULE",
    multiple=True,
    callback=_check_rules,
    help="Allow matching actions, such as `edit` or `execute:pytest*`; repeatable.",
)
@click.option(
    "--deny",
    "deny_rules",
    metavar="RULE",
    multiple=True,
    callback=_check_rules,
    help="Reject matching actions; repeatable.",
)
@click.option("--allow-everything", is_flag=True, help="Allow every action of the agents.")
@click.option(
    "--turns",
    type=click.IntRange(1),
    default=_DEFAULTS.turns,
    show_default=True,
    help="Turns at the same time; others wait.",
)
@click.option(
    "--agents",
    "most_agents",
    type=click.IntRange(1),
    default=_DEFAULTS.agents,
    show_default=True,
    help="Agents that stay started. Beyond it, those end that were not used for longest.",
)
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(1),
    default=_DEFAULTS.idle_s,
    show_default=True,
    metavar="SECONDS",
    help="End the agent of a session that is not used for this time. The session stays.",
)
@click.option(
    "--warm",
    type=click.IntRange(0),
    default=_DEFAULTS.warm,
    show_default=True,
    help="Sessions of each agent that are started before they are needed.",
)
@click.option("--stdio-mcp", is_flag=True, help="Be an MCP server on stdin and stdout.")
@click.option("--show-tools", is_flag=True, help="Name the agents' tool calls in their answers.")
@click.option(
    "--push-host",
    "push_hosts",
    metavar="HOST",
    multiple=True,
    help="Host whose URLs A2A callers may let notify: HOST or HOST:PORT by https, or"
    " http://HOST:PORT. Repeatable. Default: none.",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="Address by which callers reach this gateway, such as https://agents.example of a proxy"
    " with TLS. A2A cards have it, and its host is allowed.",
)
@endpoint_options(PORT)
def command(
    agents: tuple[str, ...],
    only: str | None,
    cwd: Path,
    roots: tuple[Path, ...],
    scratch: bool,
    allow_rules: tuple[str, ...],
    deny_rules: tuple[str, ...],
    allow_everything: bool,
    turns: int,
    most_agents: int,
    idle_s: float,
    warm: int,
    stdio_mcp: bool,
    show_tools: bool,
    push_hosts: tuple[str, ...],
    public_url: str | None,
    **listen: Any,
) -> int:
    """Serve agents to programs that speak the OpenAI API, MCP, A2A or AG-UI.

    AGENTS are names from `accord agents`, or the command of one agent after `--`. In the OpenAI
    API each is a model, as is AGENT/MODEL for a model that the agent offers; in MCP, the tool
    `ask` asks one; each has an A2A card and a path of AG-UI.

    An action of an agent that needs a permission is rejected, unless a rule (--allow) allows it
    or the caller decides: by the function `acp_permission` of the OpenAI API, by elicitation of
    MCP, as the input that an A2A task requires, or as an interrupt of AG-UI.

    Conversations are sessions that `accord session list` shows and `accord chat -s ID` opens.
    """
    protocols = _protocols(only)
    offered = _offered(agents)
    endpoint = None if stdio_mcp else Endpoint(**listen)
    settings = GatewaySettings(
        cwd=cwd.resolve(),
        roots=tuple(root.resolve() for root in roots),
        scratch=scratch,
        approvals=Approvals(allow_rules, deny_rules, allow_everything),
        turns=turns,
        agents=most_agents,
        idle_s=idle_s,
        warm=warm,
    )
    if endpoint is None:
        return _serve_stdio(offered, settings)
    try:
        access = Access(**endpoint.access())
        app = gateway(
            offered,
            access,
            settings,
            only=protocols,
            show_tools=show_tools,
            push_hosts=push_hosts,
            public_url=public_url,
        )
    except (ValueError, SessionsError) as error:
        raise click.UsageError(str(error)) from None

    places = {
        "openai": "/v1 is the OpenAI API",
        "mcp": "/mcp is an MCP server",
        "a2a": "/a2a/AGENT is A2A",
        "ag-ui": "/ag-ui/AGENT is AG-UI",
    }

    def announce(address: str) -> list[str]:
        app.start()
        names = ", ".join(offered)
        if address.startswith("unix:"):
            return [f"Serving {names} on {address}: " + ", ".join(places[one] for one in protocols)]
        shown = f"Serving {names} on {address}"
        if public_url is not None:
            address = public_url.rstrip("/")
            shown += f" as {address}"
        found = {
            "openai": f"  OpenAI API:  OPENAI_BASE_URL={address}/v1  OPENAI_API_KEY=the token",
            "mcp": f"  MCP:         {address}/mcp  Authorization: Bearer, then the token",
            "a2a": "\n".join(f"  A2A:         {address}/a2a/{name}" for name in offered),
            "ag-ui": f"  AG-UI:       {address}/ag-ui/AGENT",
        }
        return [shown, *(found[one] for one in protocols)]

    token_for = "OPENAI_API_KEY" if "openai" in protocols else "callers send it as Bearer"
    endpoint.serve(app, lambda: app.running_turns, announce, token_for)
    return 0


def _serve_stdio(agents: dict[str, NamedAgent], settings: GatewaySettings) -> int:
    from accord_bridges.gateways.mcp_server import serve_stdio

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
    try:
        serve_stdio(agents, settings)
    except SessionsError as error:
        raise click.ClickException(str(error)) from None
    return 0


def _protocols(only: str | None) -> tuple[str, ...]:
    if only is None:
        return PROTOCOLS
    wanted = tuple(word.strip() for word in only.split(","))
    for word in wanted:
        if word not in PROTOCOLS:
            raise click.UsageError(f"--only: expected {', '.join(PROTOCOLS)}, got {word!r}")
    return wanted


def _offered(words: tuple[str, ...]) -> dict[str, NamedAgent]:
    """Return the agents by their names: those of the words, or one with a command."""
    try:
        settings = load_settings()
        if words and words[0] not in named_agents(settings) and not is_object(words[0]):
            entry = AgentEntry(command=list(words))
            agent = NamedAgent(
                name=Path(words[0]).stem, argv=words, source="command line", entry=entry
            )
            found = {agent.name: agent}
        else:
            found = {word: find_agent(word, settings) for word in words or (DEFAULT,)}
    except (SettingsError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    for name, agent in found.items():
        if "://" in agent.argv[0]:
            raise click.UsageError(f"{name}: a gateway needs an agent that is a program, not a URL")
        if shutil.which(agent.argv[0]) is None:
            raise click.UsageError(
                f"{name}: the program {agent.argv[0]!r} is not on this machine: see `accord agents`"
            )
    return found
