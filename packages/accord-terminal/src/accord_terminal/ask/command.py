"""The command line of `accord ask`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from accord.version import ProtocolVersion
from accord_terminal.ask.options import (
    AskOptions,
    HeldSession,
    Statuses,
    meta_option,
    read_prompt,
    retries_option,
)
from accord_terminal.toolkit.options import (
    budget_options,
    limits_of,
    read_token,
    token_file_option,
)

if TYPE_CHECKING:
    from accord.types.mcp import McpServer
    from accord_terminal.toolkit.agent_names import NamedAgent, Settings


# Imports inside functions keep `--help` and completion fast.

PROTOCOLS: dict[str, ProtocolVersion] = {"1": 1, "2": 2}


class _CommandLine(Struct, kw_only=True):
    """The arguments and options, as given."""

    prompt: str | None
    files: tuple[Path, ...]
    source: str | None
    agent: str | None
    token_file: Path | None
    protocol: str | None
    cwd: Path
    model: str | None
    mode: str | None
    options: tuple[str, ...]
    mcp_files: tuple[Path, ...]
    meta: dict[str, Any] | None
    allow_rules: tuple[str, ...]
    deny_rules: tuple[str, ...]
    yes: bool
    terminals: bool
    timeout_s: float | None
    budget: str | None
    unmetered: tuple[str, ...]
    retries: int
    steer: bool
    thoughts: bool
    verbose: bool
    quiet: bool
    as_json: bool
    continue_latest: bool
    session_id: str | None
    held_name: str | None

    def with_settings(self, known: Settings, agent: NamedAgent) -> AskOptions:
        """Return the options of the run: the command line takes precedence over the settings."""
        defaults = agent.entry
        if self.held_name is not None:  # which has the model and the options it was created with
            defaults = replace(defaults, model=None, mode=None, options={}, mcp=None)
        return AskOptions(
            prompt=read_prompt(
                () if self.prompt is None else (self.prompt,),
                self.source,
                may_be_empty=bool(self.files),
            ),
            argv=agent.argv,
            token=self._token(agent),
            env=defaults.env,
            cwd=self.cwd.absolute(),
            files=self.files,
            protocol=defaults.protocol if self.protocol is None else PROTOCOLS[self.protocol],
            allow_rules=(*known.ask.allow, *self.allow_rules),
            deny_rules=(*known.ask.deny, *self.deny_rules),
            yes=self.yes,
            model=self.model or defaults.model,
            mode=self.mode or defaults.mode,
            options=(*_as_assignments(defaults.options), *self.options),
            mcp_servers=self._mcp_servers(defaults.mcp),
            meta=self.meta,
            limits=limits_of(self.budget, self.unmetered),
            retries=self.retries,
            steer=self.steer,
            timeout_s=self.timeout_s or known.ask.timeout,
            terminals=self.terminals,
            as_json=self.as_json,
            quiet=self.quiet,
            thoughts=self.thoughts,
            verbose=self.verbose,
            continue_latest=self.continue_latest,
            session_id=self.session_id,
        )

    def check(self) -> None:
        """Raise `click.UsageError` for options that exclude each other."""
        if self.continue_latest and self.session_id is not None:
            raise click.UsageError("--continue and --session exclude each other")
        if self.held_name is not None and (self.continue_latest or self.session_id is not None):
            raise click.UsageError("-s excludes --continue and --session")
        if self.held_name is not None and (
            self.mcp_files or self.terminals or self.meta is not None
        ):
            raise click.UsageError(
                "-s: give --mcp, --meta and --terminals to `accord session new`, "
                "which starts the agent"
            )
        reads_prompt = self.source is None and self.prompt in (None, "-")
        if self.steer and (reads_prompt or self.source == "-"):
            raise click.UsageError(
                "--steer reads standard input: give the PROMPT as an argument, or by --file"
            )
        if self.quiet and self.as_json:
            raise click.UsageError("--quiet and --json exclude each other")

    def _token(self, agent: NamedAgent) -> str | None:
        from accord.transports.registry import is_url

        if is_url(agent.argv[0]):
            return read_token(self.token_file)
        if self.token_file is not None:
            raise click.UsageError("--token-file needs the URL of an agent in --agent")
        return None

    def _mcp_servers(self, default: str | None) -> tuple[McpServer, ...]:
        files = self.mcp_files
        if default is not None and not files:
            from accord_terminal.toolkit.agent_names import (
                settings_path,
            )

            files = (settings_path().parent / default,)
        if not files:
            return ()
        from accord_terminal.toolkit.session_setup import McpFileError, read_mcp_file

        try:
            return tuple(server for file in files for server in read_mcp_file(file))
        except McpFileError as error:
            raise click.UsageError(f"--mcp: {error}") from None


def _check_rules(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    if value and (error := _rule_error(value)) is not None:
        raise click.BadParameter(error)
    return value


def _rule_error(rules: Sequence[str]) -> str | None:
    """Return what is wrong with a rule of --allow or --deny, or None."""
    if not rules:
        return None
    from accord.types.tool_calls import rule_error

    return rule_error(rules)


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
    from accord_terminal.toolkit.agent_names import (
        Settings,
        SettingsError,
        load_settings,
        named_agents,
    )

    try:
        known = load_settings()
    except SettingsError:  # reported when the command runs
        known = Settings()
    return [name for name in named_agents(known) if name.startswith(incomplete)]


@click.command()
@click.argument("prompt", required=False)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--file", "-f", "source", metavar="FILE", help="Read the prompt from a file, or `-`.")
@click.option(
    "--agent",
    "agent",
    metavar="NAME|COMMAND|URL",
    shell_complete=_complete_agent,
    help="Name from `accord agents`, the command that starts the agent, or its URL.",
)
@token_file_option
@click.option(
    "--protocol",
    type=click.Choice(list(PROTOCOLS)),
    help="Protocol version [default: the newest version that the agent speaks].",
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
    help="Give the agent the MCP servers in this JSON file (`mcpServers`); repeatable.",
)
@meta_option
@click.option(
    "--allow",
    "allow_rules",
    metavar="RULE",
    multiple=True,
    callback=_check_rules,
    help="Allow matching actions, such as `edit`, `edit:src/*` or `execute:pytest*`; repeatable.",
)
@click.option(
    "--deny",
    "deny_rules",
    metavar="RULE",
    multiple=True,
    callback=_check_rules,
    help="Reject matching actions, even if --allow or --yes would allow them; repeatable.",
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
    help="Cancel the turn after this time, with exit status 3.",
)
@budget_options
@retries_option
@click.option(
    "--steer",
    is_flag=True,
    help="Read lines from the terminal or standard input while the agent works, and say each to "
    "it.",
)
@click.option("--thoughts", is_flag=True, help="Show the agent's thoughts.")
@click.option("--verbose", is_flag=True, help="Show the agent's name, version and stderr.")
@click.option("--quiet", is_flag=True, help="Print only the answer; ask no questions.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print events as JSON lines; ask no questions."
)
@click.option(
    "--continue",
    "continue_latest",
    is_flag=True,
    help="Continue the latest session in this directory.",
)
@click.option("--session", "session_id", metavar="ID", help="Continue the session with this ID.")
@click.option(
    "-s",
    "held_name",
    metavar="NAME",
    help="Use the persistent session with this name; create it if there is none.",
)
def command(**given: Any) -> int:
    """Send one prompt to an agent and show what it does.

    Without PROMPT, or with `-`, the prompt is read from standard input. FILES are attached to it.

    Permission requests are decided by --deny, --allow and --yes; otherwise you are asked at the
    terminal, and without a terminal they are rejected. Forms and logins are shown only at a
    terminal. Ctrl-C cancels the turn or declines the open form; press it twice to quit.

    Exit status: 0 turn completed, 1 agent failed, 2 usage error, 3 stopped early or rejected a
    permission request without asking you, 4 agent refused, 130 cancelled.
    """
    line = _CommandLine(**given)
    line.check()
    known, agent = _find_agent(line.agent)
    options = line.with_settings(known, agent)
    if isinstance(statuses := click.get_current_context().obj, Statuses):
        options = replace(options, statuses=statuses)
    from accord_terminal.ask.run import AskProgram

    held = None if line.held_name is None else _held_session(line)
    try:
        program = AskProgram(options, held)
    except ValueError as error:  # a URL that must not be used
        raise click.UsageError(str(error)) from None
    return program.run()


def _held_session(line: _CommandLine) -> HeldSession:
    """Return the persistent session that -s names; another package holds these."""
    from accord.program import load_entry_point

    held = load_entry_point("accord.held_sessions", "accord", "accord_terminal")
    if held is None:
        raise click.UsageError("-s: persistent sessions are not installed")
    return held(line.held_name, line.cwd, line.agent)


def _find_agent(name: str | None) -> tuple[Settings, NamedAgent]:
    """Return the settings, and the agent that --agent names."""
    from accord_terminal.toolkit.agent_names import (
        SettingsError,
        find_agent,
        load_settings,
        settings_path,
    )

    try:
        known = load_settings()
        agent = find_agent(name, known)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    except ValueError as error:
        raise click.BadParameter(
            f"Expected a name or a command line, got {name!r}: {error}", param_hint="--agent"
        ) from None
    for key, rules in (("allow", known.ask.allow), ("deny", known.ask.deny)):
        if (error := _rule_error(rules)) is not None:
            raise click.UsageError(f"The settings file {settings_path()}: ask.{key}: {error}")
    return known, agent


def _as_assignments(options: Mapping[str, str | bool]) -> Iterator[str]:
    for name, value in options.items():
        yield f"{name}={'on' if value is True else 'off' if value is False else value}"
