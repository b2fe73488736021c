"""`accord ask`: one turn with an agent, shown to people or told to programs. Its command line."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from accord.cli import settings
from accord.cli.agent_names import find_agent, named_agents
from accord.cli.turn import AskOptions, run
from accord.version import ProtocolVersion

if TYPE_CHECKING:
    from accord.types.mcp import McpServer

__all__ = ("command",)

PROTOCOLS: dict[str, ProtocolVersion] = {"1": 1, "2": 2}


def _check_rules(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    if value and (fault := _rule_error(value)) is not None:
        raise click.BadParameter(fault)
    return value


def _rule_error(rules: Iterable[str]) -> str | None:
    """Return what is wrong with a rule of --allow or --deny; None if nothing is."""
    from accord.types.tool_calls import ToolKind

    known, _ = get_args(ToolKind)
    for rule in rules:
        kind = rule.partition(":")[0]
        if kind not in ("*", *get_args(known)) and not kind.startswith("_"):
            return (
                f"Expected a kind of tool call, got {kind!r} in {rule!r}: it is one of "
                f"{', '.join(get_args(known))}, or * for all"
            )
    return None


def _check_seconds(
    _context: click.Context, _option: click.Parameter, value: float | None
) -> float | None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise click.BadParameter(f"Expected a number of seconds above 0, got {value:g}")
    return value


def _check_assignments(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    for assignment in value:
        name, equals, _ = assignment.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"Expected ID=VALUE, got {assignment!r}")
    return value


def _complete_agent(
    _context: click.Context, _option: click.Parameter, incomplete: str
) -> list[str]:
    try:
        known = settings.load()
    except settings.SettingsError:  # said when the command runs
        known = settings.Settings()
    return [name for name in named_agents(known) if name.startswith(incomplete)]


@click.command()
@click.argument("prompt", required=False)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--agent",
    "agent",
    metavar="NAME|COMMAND",
    shell_complete=_complete_agent,
    help="A name that `accord agents` lists, or a command that starts the agent.",
)
@click.option(
    "--protocol",
    type=click.Choice(list(PROTOCOLS)),
    help="Speak only this version [default: the newest that the agent speaks].",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Working directory of the session [default: .].",
)
@click.option("--model", metavar="NAME", help="Model of the session.")
@click.option("--mode", metavar="NAME", help="Mode of the session.")
@click.option(
    "--option",
    "options",
    metavar="ID=VALUE",
    multiple=True,
    callback=_check_assignments,
    help="Set an option of the session; repeatable.",
)
@click.option(
    "--mcp",
    "mcp_files",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Give the agent the MCP servers of this JSON file (`mcpServers`); repeatable.",
)
@click.option(
    "--allow",
    "rules",
    metavar="RULE",
    multiple=True,
    callback=_check_rules,
    help="Allow matching actions, such as `edit`, `edit:src/*` or `execute:pytest*`; repeatable.",
)
@click.option(
    "--deny",
    "denied",
    metavar="RULE",
    multiple=True,
    callback=_check_rules,
    help="Reject matching actions, whatever --allow and --yes say; repeatable.",
)
@click.option("--yes", is_flag=True, help="Allow all permission requests.")
@click.option(
    "--terminals",
    is_flag=True,
    help="Let v1 agents run commands on this machine.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=float,
    callback=_check_seconds,
    help="Cancel the turn after this time; the exit status is then 3.",
)
@click.option("--thoughts", is_flag=True, help="Show the agent's thoughts.")
@click.option("--verbose", is_flag=True, help="Show the agent's stderr, and what it is.")
@click.option("--quiet", is_flag=True, help="Print only the answer; ask nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines; ask nothing.")
@click.option("--continue", "goes_on", is_flag=True, help="Continue the latest session here.")
@click.option("--session", "session_id", metavar="ID", help="Continue the session with this ID.")
def command(
    prompt: str | None,
    files: tuple[Path, ...],
    agent: str | None,
    protocol: str | None,
    cwd: Path,
    model: str | None,
    mode: str | None,
    options: tuple[str, ...],
    mcp_files: tuple[Path, ...],
    rules: tuple[str, ...],
    denied: tuple[str, ...],
    yes: bool,
    terminals: bool,
    timeout_s: float | None,
    thoughts: bool,
    verbose: bool,
    quiet: bool,
    as_json: bool,
    goes_on: bool,
    session_id: str | None,
) -> int:
    """Send one prompt to an agent and show what it does.

    Without PROMPT, or with `-`, the prompt is read from standard input. FILES are attached to it.

    Permission requests are decided by --deny, --allow and --yes; otherwise you are asked at the
    terminal, and without a terminal they are rejected. Forms and logins are shown only at a
    terminal. Ctrl-C cancels the turn or declines the open form; press it twice to quit.

    Exit status: 0 turn completed, 1 agent failed, 2 usage error, 3 stopped early or rejected a
    permission request without asking you, 4 agent refused, 130 cancelled.
    """
    if goes_on and session_id is not None:
        raise click.UsageError("--continue and --session exclude each other")
    if quiet and as_json:
        raise click.UsageError("--quiet and --json exclude each other")
    try:
        known = settings.load()
        named = find_agent(agent, known)
    except settings.SettingsError as wrong:
        raise click.UsageError(str(wrong)) from None
    except ValueError as exc:
        raise click.BadParameter(
            f"Expected a name or a command line, got {agent!r}: {exc}", param_hint="--agent"
        ) from None
    for key, listed in (("allow", known.ask.allow), ("deny", known.ask.deny)):
        if listed and (fault := _rule_error(listed)) is not None:
            raise click.UsageError(f"The settings file {settings.path()}: ask.{key}: {fault}")
    defaults = named.entry
    if defaults.mcp is not None and not mcp_files:
        mcp_files = (settings.path().parent / defaults.mcp,)
    if prompt is None or prompt == "-":
        prompt = _from_stdin(is_named=prompt == "-")
    if not prompt.strip() and not files:
        raise click.UsageError("Expected a PROMPT, got an empty one")

    return run(
        AskOptions(
            prompt=prompt,
            words=named.argv,
            env=defaults.env,
            cwd=cwd.absolute(),
            files=files,
            protocol=defaults.protocol if protocol is None else PROTOCOLS[protocol],
            rules=(*known.ask.allow, *rules),
            denied=(*known.ask.deny, *denied),
            yes=yes,
            model=model or defaults.model,
            mode=mode or defaults.mode,
            options=(*_as_assignments(defaults.options), *options),
            mcp_servers=_mcp_servers(mcp_files),
            timeout_s=timeout_s or known.ask.timeout,
            terminals=terminals,
            as_json=as_json,
            quiet=quiet,
            thoughts=thoughts,
            verbose=verbose,
            goes_on=goes_on,
            session_id=session_id,
        )
    )


def _from_stdin(*, is_named: bool) -> str:
    if sys.stdin is None or (sys.stdin.isatty() and not is_named):
        raise click.UsageError("Expected a PROMPT; give `-` to read it from standard input")
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"Expected a prompt in UTF-8 on standard input: {exc}") from None


def _as_assignments(options: Mapping[str, str | bool]) -> Iterator[str]:
    for name, value in options.items():
        yield f"{name}={'on' if value is True else 'off' if value is False else value}"


def _mcp_servers(files: tuple[Path, ...]) -> tuple[McpServer, ...]:
    if not files:
        return ()
    from accord.cli.mcp_file import McpFileError, read_mcp_file

    try:
        return tuple(server for file in files for server in read_mcp_file(file))
    except McpFileError as wrong:
        raise click.UsageError(f"--mcp: {wrong}") from None
