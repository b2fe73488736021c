"""`accord doctor`: what is installed, which agents start, and what is known about them.

In this order: what the machine has, the start of one agent, the report, and the command.
"""

from __future__ import annotations

import asyncio
import platform
import re
import shlex
import shutil
import tempfile
import textwrap
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import click
import msgspec
from msgspec import Struct

from accord.client.connect import ConnectedAgent, connect
from accord.errors import AccordError, AuthRequired, RequestError
from accord.local.run import kill_process, run_program
from accord.rules.quirks import quirks_of, tolerates
from accord.text.secrets import redacted_argv, redacted_text
from accord.transports.process import process
from accord.transports.registry import is_url
from accord.types.steering import is_advertised
from accord.version import __version__
from accord_terminal.toolkit.agent_names import (
    MISSING,
    NamedAgent,
    Settings,
    SettingsError,
    complete_name,
    find_agent,
    load_settings,
    named_agents,
    settings_path,
)
from accord_terminal.toolkit.text import one_line

# The machine: Python, extras of Accord, and programs that agents need.

_TIME_LIMIT_S = 5.0
_PROGRAMS = ("node", "npm", "uv", "git")
# A module that only this extra needs, among the extras for users.
_EXTRAS = {
    "coder": "pydantic_ai",
    "fleet": "pyarrow",
    "inspector": "starlette",
    "mcp": "mcp",
    "remote": "h2",
    "tui": "textual",
}
_VERSION = re.compile(r"\d+(?:\.\d+)+[\w.-]*")


class Program(Struct, frozen=True):
    """A program in `PATH`; the version is None if it does not tell."""

    path: str
    version: str | None


class Machine(Struct, frozen=True):
    """The facts that matter when an agent does not start."""

    accord: str
    python: str
    system: str
    extras: dict[str, bool]
    programs: dict[str, Program | None]
    settings: str
    has_settings: bool  # the file exists
    settings_error: str | None


async def look_at_machine() -> Machine:
    """Return the facts; each program has 5 seconds to tell its version."""
    found = await asyncio.gather(*map(_program, _PROGRAMS))
    try:
        load_settings()
        error = None
    except SettingsError as why:
        error = str(why)
    return Machine(
        accord=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        extras={extra: find_spec(module) is not None for extra, module in _EXTRAS.items()},
        programs=dict(zip(_PROGRAMS, found, strict=True)),
        settings=str(settings_path()),
        has_settings=settings_path().exists(),
        settings_error=error,
    )


async def _program(name: str) -> Program | None:
    path = shutil.which(name)
    if path is None:
        return None
    try:
        process = await asyncio.create_subprocess_exec(
            path,
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return Program(path, None)
    try:
        async with asyncio.timeout(_TIME_LIMIT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return Program(path, None)
    finally:
        await kill_process(process)
    version = _VERSION.search(output.decode("utf-8", "replace"))
    return Program(path, version[0] if version else None)


# An agent is started, asked what it is and whether it requires a login, and stopped.

_STOP_TIMES_S = (0.5, 0.5, 1.0)
_MAX_LINES = 5
_REASON = re.compile(r"^\w*(?:Error|Exception)\b.*:")
_OFFERED = (
    "load_session",
    "resume_session",
    "list_sessions",
    "fork_session",
    "close_session",
    "delete_session",
    "logout",
)
_CONTENT = ("image", "audio", "resource")


class Login(Struct, frozen=True):
    """A login that the agent offers."""

    id: str
    name: str
    terminal: bool


class FoundQuirk(Struct, frozen=True):
    """A row of the table of quirks: known of this agent, or seen now."""

    id: str
    does: str
    response: str
    seen: bool


class Probe(Struct, kw_only=True):
    """What is known of an agent. `error` says why it does not work."""

    name: str
    source: str
    command: list[str]
    error: str | None = None
    title: str = ""  # as the agent calls itself
    info_name: str = ""
    version: str = ""
    protocol: int | None = None
    initialize_s: float | None = None  # from the start of the process to its answer
    session_s: float | None = None  # from the request to the answer of `session/new`
    login: str | None = None  # "required", or "not required" (or already logged in)
    logins: list[Login] = []
    offers: list[str] = []
    steered: bool | None = None  # whether it takes messages while it works
    capabilities: Any = None
    noise: list[str] = []  # lines on stdout that are not JSON
    stderr: list[str] = []
    quirks: list[FoundQuirk] = []

    @property
    def works(self) -> bool:
        """Whether it can be used, perhaps after a login."""
        return self.error is None


async def probe(agent: NamedAgent, limit_s: float) -> Probe:
    """Return what an agent says within the time limit; never raises for what agents do."""
    found = Probe(name=agent.name, source=agent.source, command=redacted_argv(agent.argv))
    noise: deque[str] = deque(maxlen=_MAX_LINES)
    stderr: deque[str] = deque(maxlen=50)
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            await _ask(agent, found, limit_s, noise, stderr)
    except TimeoutError:
        if not limit.expired():
            found.error = "it did not respond in time"
        elif found.initialize_s is None:
            found.error = f"it did not respond to `initialize` within {limit_s:g} s"
        else:
            found.error = f"it did not respond to `session/new` within {limit_s:g} s"
    except (AccordError, OSError, ValueError) as error:
        found.error = one_line(redacted_text(str(error)), 500)
    found.noise = [one_line(redacted_text(line), 200) for line in noise]
    said = [one_line(redacted_text(line), 200) for line in stderr if line.strip()]
    found.stderr = said[-_MAX_LINES:]
    reasons = [line for line in said if _REASON.search(line)]
    failed = found.error is not None and found.initialize_s is None
    # The last line, which is in the error already, is often the version of node.
    if failed and reasons and reasons[-1] not in (found.error or ""):
        found.error = f"{found.error}; {reasons[-1]}"
    _add_quirks(found)
    return found


async def _ask(
    agent: NamedAgent, found: Probe, limit_s: float, noise: deque[str], stderr: deque[str]
) -> None:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="accord-doctor-", ignore_cleanup_errors=True) as folder:
        command = (
            agent.argv[0]
            if is_url(agent.argv[0])
            else process(
                *agent.argv,
                cwd=folder,
                env=agent.entry.env,
                on_stdout_noise=noise.append,
                on_stderr=stderr.append,
                stop_times_s=_STOP_TIMES_S,
            )
        )
        versions = (1, 2) if agent.entry.protocol is None else (agent.entry.protocol,)
        async with connect(
            command, versions=versions, terminal_login=True, initialize_timeout_s=limit_s
        ) as connected:
            found.initialize_s = round(time.monotonic() - begun, 3)
            _describe(found, connected)
            begun = time.monotonic()
            try:
                session = await connected.new_session(folder)
            except AuthRequired:
                found.login = "required"
            except RequestError as error:
                found.login = "unknown"
                found.error = f"it rejected `session/new`: {one_line(str(error), 300)}"
            else:
                found.login = "not required"
                found.session_s = round(time.monotonic() - begun, 3)
                if connected.supports("delete_session"):
                    await connected.delete_session(session.id)


def _describe(found: Probe, connected: ConnectedAgent) -> None:
    """Note what the answer to `initialize` says."""
    info = connected.info
    found.info_name = one_line(info.name, 80)
    found.title = one_line(info.title or info.name, 80)
    found.version = one_line(info.version or "", 40)
    found.protocol = connected.version
    found.logins = [
        Login(one_line(method.id, 60), one_line(method.name, 80), method.terminal)
        for method in connected.auth_methods
    ]
    found.offers = [name for name in _OFFERED if connected.supports(name)]
    found.offers += [kind for kind in _CONTENT if connected.supports_content(kind)]
    said = msgspec.to_builtins(connected.remote.initialized)
    found.steered = is_advertised(connected.remote.initialized.meta)
    found.capabilities = said.get("agentCapabilities", said.get("capabilities"))


@tolerates("noise-on-stdout")
def _add_quirks(found: Probe) -> None:
    seen = {"noise-on-stdout"} if found.noise else set[str]()
    found.quirks = [
        FoundQuirk(row.id, row.does, row.response, row.id in seen)
        for row in quirks_of(found.info_name, seen)
    ]


# The report as text, readable in 80 columns.

_HEAD = 10  # columns of a heading
_SEARCHED = re.compile(r"(?<=not found in PATH) \(.*\)")
_HINTS = {  # what helps, by a part of the error
    "not found in PATH": "Install it, or set its absolute path in the settings file.",
    "did not respond": "Run its command in a terminal: it may wait for a login or a download.",
    "closed the connection": "Run its command in a terminal: it exited before it responded.",
}


def machine_lines(machine: Machine, columns: int) -> Iterator[str]:
    """Yield the facts of the machine."""
    yield f"Accord {machine.accord}, Python {machine.python}, {machine.system}"
    programs = [
        f"{name} {'not found' if found is None else found.version or 'of unknown version'}"
        for name, found in machine.programs.items()
    ]
    extras = [
        f"{name}{'' if there else ' not installed'}" for name, there in machine.extras.items()
    ]
    yield from _row("Programs", ", ".join(programs), columns)
    yield from _row("Extras", ", ".join(extras), columns)
    there = "" if machine.has_settings else MISSING
    yield from _row("Settings", machine.settings + there, columns)
    if machine.settings_error is not None:
        yield from _row("", f"✗ {machine.settings_error}", columns)


def overview_lines(probes: Sequence[Probe], missing: Sequence[str], columns: int) -> Iterator[str]:
    """Yield a line for each agent that was started, and the names of the others."""
    width = max((len(found.name) for found in probes), default=0)
    for found in sorted(probes, key=lambda one: (not one.works, one.name)):
        if found.works:
            facts = [
                f"{found.title} {found.version}".strip(),
                f"ACP v{found.protocol}",
                f"started in {found.initialize_s:.1f} s",
                "login required" if found.login == "required" else "ready",
            ]
            yield from _hanging(f"✓ {found.name:<{width}}  ", ", ".join(facts), columns)
        else:
            short = _SEARCHED.sub("", found.error or "")
            yield from _hanging(f"✗ {found.name:<{width}}  ", short, columns)
            hint = _hint(found) or f"Details: accord doctor {found.name}"
            yield from _hanging(" " * (width + 4), hint, columns)
        if names := [row.id for row in found.quirks]:
            yield from _hanging(" " * (width + 4), f"quirks: {', '.join(names)}", columns)
    if missing:
        yield ""
        yield from _hanging("Not installed: ", ", ".join(missing), columns)


def agent_lines(found: Probe, columns: int) -> Iterator[str]:
    """Yield all that is known of one agent."""
    yield f"{'✓' if found.works else '✗'} {found.name}"
    # In one piece, to be copied.
    yield f"{'Command':<{_HEAD}}{shlex.join(found.command)}"
    yield from _row("Source", found.source, columns)
    if found.error is not None:
        yield from _row("Problem", found.error, columns)
        if hint := _hint(found):
            yield from _row("Try", hint, columns)
    if found.initialize_s is not None:
        name = f"{found.title} {found.version}".strip()
        shown = name if found.info_name in ("", found.title) else f"{name} ({found.info_name})"
        yield from _row("Agent", shown, columns)
        yield from _row("Protocol", f"version {found.protocol}", columns)
        times = f"{found.initialize_s:.2f} s until the response to `initialize`"
        if found.session_s is not None:
            times += f", {found.session_s:.2f} s more for `session/new`"
        yield from _row("Time", times, columns)
        logins = ", ".join(
            f"{login.id}{' (at the terminal)' if login.terminal else ''}" for login in found.logins
        )
        yield from _row(
            "Login", f"{found.login}{f'; auth methods: {logins}' if logins else ''}", columns
        )
        if found.login == "required" and found.logins:
            yield from _row("", f"accord agents login {found.name}", columns)
        yield from _row("Supports", ", ".join(found.offers) or "no optional methods", columns)
        yield from _row("Steering", _steering(found), columns)
    for heading, lines in (("Stdout", found.noise), ("Stderr", found.stderr)):
        for number, line in enumerate(lines):
            yield from _row(heading if number == 0 else "", line, columns)
    for number, row in enumerate(found.quirks):
        when = "seen now" if row.seen else "known of this agent"
        yield from _row("Quirks" if number == 0 else "", f"{row.id} ({when}): {row.does}", columns)
        yield from _row("", f"Accord {row.response}", columns)


def _steering(found: Probe) -> str:
    if found.steered:
        return "it takes messages while it works"
    if found.protocol == 2:
        return "not advertised; it may take a second prompt while it works"
    return "not advertised; messages wait for the end of the turn, or cancel it"


def _hint(found: Probe) -> str | None:
    if found.noise and found.initialize_s is None:
        return f"It writes {found.noise[-1]!r} to stdout: check that this is its command for ACP."
    for part, hint in _HINTS.items():
        if part in (found.error or ""):
            return hint
    return None


def _row(heading: str, text: str, columns: int) -> Iterator[str]:
    yield from _hanging(f"{heading:<{_HEAD}}", text, columns)


def _hanging(head: str, text: str, columns: int) -> Iterator[str]:
    """Yield a text in lines that begin below each other."""
    width = max(columns - len(head), 20)
    lines = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        yield f"{head if number == 0 else ' ' * len(head)}{line}".rstrip()


_AT_ONCE = 4


@click.command("doctor")
@click.argument("agent", required=False, shell_complete=complete_name)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for each agent.",
)
def command(agent: str | None, as_json: bool, timeout: float) -> int:
    """Check which agents start here, and show what is known about them.

    Each installed agent is started in an empty folder, initialized, asked to open a session, and
    stopped. It receives no prompt. With AGENT, a name or a command, only this agent is checked,
    and all details are shown.

    Exit status: 0 all checked agents work, 1 at least one does not, 2 usage error.
    """
    try:
        if agent is not None:
            return run_program(_one(agent, as_json, timeout))
        return run_program(_all(as_json, timeout))
    except (AccordError, ValueError) as error:
        raise click.UsageError(str(error)) from None


async def _one(name: str, as_json: bool, limit_s: float) -> int:
    found = await probe(find_agent(name, load_settings()), limit_s)
    if as_json:
        _print_json(await look_at_machine(), [found], [])
    else:
        _print(agent_lines(found, _columns()))
    return 0 if found.works else 1


async def _all(as_json: bool, limit_s: float) -> int:
    machine = await look_at_machine()
    known = Settings() if machine.settings_error else load_settings()
    agents = named_agents(known)
    there = [agent for agent in agents.values() if _is_there(agent)]
    missing = [name for name in agents if agents[name] not in there]
    if not as_json:
        _print(machine_lines(machine, _columns()))
        click.echo("")
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(agent: NamedAgent) -> Probe:
        async with free:
            return await probe(agent, limit_s)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(agent)) for agent in there]
    probes = [task.result() for task in tasks]
    if as_json:
        _print_json(machine, probes, missing)
    else:
        _print(overview_lines(probes, missing, _columns()))
    works = machine.settings_error is None and all(found.works for found in probes)
    return 0 if works else 1


def _is_there(agent: NamedAgent) -> bool:
    """Return whether an agent should start: all but well-known ones that are not installed."""
    return agent.source != "well known" or is_url(agent.argv[0]) or agent.is_installed


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def _print_json(machine: Machine, probes: list[Probe], missing: list[str]) -> None:
    value = {"machine": machine, "agents": probes, "not_installed": missing}
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def _columns() -> int:
    return min(shutil.get_terminal_size().columns, 100)
