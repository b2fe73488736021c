"""Where the agents of a chat come from: finds them by name, command or URL, and lists them.

A `Source` is a process that the chat starts, a server, or a session of `accord session`, with the
options that its sessions are opened with. `Sources` makes them from the command line and the
settings.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Protocol
from urllib.parse import urlsplit

import click
from msgspec import Struct, field

from accord.client.limits import Limits
from accord.transports.base import Transport, TransportFactory
from accord.transports.process import process
from accord.transports.registry import RemoteOptions, is_url, transport_for_url
from accord.types.mcp import McpServer
from accord.version import ProtocolVersion
from accord_terminal.sessions.owners import transport_to
from accord_terminal.sessions.records import Store, existing_session
from accord_terminal.toolkit.agent_names import (
    DEFAULT,
    AgentEntry,
    NamedAgent,
    Settings,
    find_agent,
    named_agents,
    settings_path,
)
from accord_terminal.toolkit.options import limits_of, read_token
from accord_terminal.toolkit.session_setup import McpFileError, read_mcp_file

STOP_TIMES_S = (0.5, 1.0, 2.0)  # to exit after EOF, after SIGTERM and after SIGKILL


class Source(Protocol):
    """What a chat connects to."""

    @property
    def label(self) -> str:
        """The name of the agent for the user, as it can be given to `--agent`."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a lost connection can be established again."""
        ...

    @property
    def login_command(self) -> Sequence[str] | None:
        """The command that a terminal login adds arguments to; None if it cannot be run here."""
        ...

    @property
    def setup(self) -> SourceSetup:
        """What sessions of the agent are opened with."""
        ...

    def transport(
        self, on_stderr: Callable[[str], None], on_noise: Callable[[str], None]
    ) -> TransportFactory:
        """Return what makes a connection."""
        ...


class GivenOptions(Struct, frozen=True, kw_only=True):
    """What the command line sets: sessions that are opened again get it, too."""

    model: str | None = None
    mode: str | None = None
    options: tuple[str, ...] = ()


class SourceSetup(Struct, frozen=True, kw_only=True):
    """The options for the sessions of an agent, from the command line and the settings."""

    protocol: ProtocolVersion | None = None
    model: str | None = None
    mode: str | None = None
    options: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    allow_rules: tuple[str, ...] = ()
    deny_rules: tuple[str, ...] = ()
    terminals: bool = False
    limits: Limits | None = None
    env: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    given: GivenOptions = field(default_factory=lambda: GivenOptions())


class OwnAgent:
    """An agent that this program starts, or a server that it connects to."""

    def __init__(
        self,
        label: str,
        argv: Sequence[str],
        setup: SourceSetup,
        *,
        token: str | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.label = label
        self.argv = tuple(argv)
        self.setup = setup
        self.token = token
        self._cwd = cwd

    @property
    def is_remote(self) -> bool:
        """Whether it is a URL."""
        return is_url(self.argv[0])

    @property
    def login_command(self) -> Sequence[str] | None:
        """The agent's command."""
        return None if self.is_remote else self.argv

    def transport(
        self, on_stderr: Callable[[str], None], on_noise: Callable[[str], None]
    ) -> TransportFactory:
        """Return what starts the process or connects to the server.

        Raises `ValueError` for a URL that must not be used.
        """
        if self.is_remote:
            return transport_for_url(
                self.argv[0], RemoteOptions(token=self.token, ends_when_cut=True)
            )
        return process(
            *self.argv,
            cwd=self._cwd,
            env=self.setup.env,
            on_stderr=on_stderr,
            on_stdout_noise=on_noise,
            stop_times_s=STOP_TIMES_S,
        )


class MissingAgent:
    """An agent that could not be found: its sessions say why, and can look for it again."""

    is_remote = False
    login_command = None

    def __init__(self, label: str, why: Exception) -> None:
        self.label = label
        self.setup = SourceSetup()
        self._why = why

    def transport(
        self, on_stderr: Callable[[str], None], on_noise: Callable[[str], None]
    ) -> TransportFactory:
        """Raise why it was not found."""
        raise self._why


class SharedSession:
    """A session of `accord session`: its owner holds the agent, and outlives this program."""

    PREFIX = "session "

    def __init__(self, name: str, folder: Path, setup: SourceSetup) -> None:
        self.label = f"{self.PREFIX}{name}"
        self.is_remote = False
        self.login_command = None
        self.setup = setup
        self._name = name
        self._folder = folder
        self._opened: Transport | None = None

    async def reach(self) -> None:
        """Connect to the owner, and start it again if it has ended; the version is then known.

        With the version of the agent nothing is translated: all that it sends arrives.
        """
        store = Store()
        record = existing_session(store, self._name, self._folder)
        self._opened = await transport_to(record, store)
        protocol = store.read(record.id).protocol
        self.setup = SourceSetup(protocol=2 if protocol == 2 else 1)

    def transport(
        self, on_stderr: Callable[[str], None], on_noise: Callable[[str], None]
    ) -> TransportFactory:
        """Return the connection to the owner."""
        opened, self._opened = self._opened, None
        assert opened is not None, "`reach` was called"
        return lambda: opened


ORIGINS = ("settings", "installed", "bundled", "well known")  # in the order of a list
PROTOCOLS: dict[str, ProtocolVersion] = {"1": 1, "2": 2}


class ChatOptions(Struct, kw_only=True):
    """The command line."""

    agent: str | None = None
    token_file: Path | None = None
    protocol: str | None = None
    cwd: Path = Path()
    model: str | None = None
    mode: str | None = None
    options: tuple[str, ...] = ()
    mcp_files: tuple[Path, ...] = ()
    allow_rules: tuple[str, ...] = ()
    deny_rules: tuple[str, ...] = ()
    terminals: bool = False
    budget: str | None = None
    unmetered: tuple[str, ...] = ()
    is_new: bool = False
    resume: bool = False
    session_id: str | None = None
    shared_name: str | None = None
    trace: Path | None = None


class Sources:
    """Finds agents; what the command line sets applies to the agent that it names."""

    def __init__(self, options: ChatOptions, known: Settings) -> None:
        self._options = options
        self._known = known
        self._limits = limits_of(options.budget, options.unmetered)
        self._token_server: str | None = None  # the only one that gets the token
        self.default_label = options.agent or known.ask.agent or DEFAULT
        if is_url(self.default_label):
            self._token_server = _server(self.default_label)

    def find(self, label: str) -> Source:
        """Return an agent.

        Raises `ValueError` for words that name none, and `AccordError` for one in quarantine.
        """
        options, known = self._options, self._known
        if label.startswith(SharedSession.PREFIX):
            # Modes, rules and servers are those of the session: other clients use it, too.
            name = label.removeprefix(SharedSession.PREFIX)
            return SharedSession(name, options.cwd.absolute(), SourceSetup())
        agent = find_agent(label, known)
        entry = agent.entry
        is_default = label == self.default_label
        # Rules for an agent that is named are not for others in the same window.
        is_meant = is_default or options.agent is None
        setup = SourceSetup(
            protocol=PROTOCOLS[options.protocol]
            if options.protocol and is_meant
            else entry.protocol,
            model=(options.model if is_default else None) or entry.model,
            mode=(options.mode if is_default else None) or entry.mode,
            options=(*_assignments(entry.options), *(options.options if is_default else ())),
            mcp_servers=self._mcp_servers(entry),
            allow_rules=(*known.ask.allow, *(options.allow_rules if is_meant else ())),
            deny_rules=(*known.ask.deny, *options.deny_rules),
            terminals=options.terminals and is_meant,
            limits=self._limits,
            env=entry.env,
            given=GivenOptions(model=options.model, mode=options.mode, options=options.options)
            if is_default
            else GivenOptions(),
        )
        return OwnAgent(label, agent.argv, setup, token=self._token(agent.argv[0]))

    def known(self) -> list[KnownAgent]:
        """Return the agents that have a name and can be started here; the default is the first.

        Raises `SettingsError` if the list of installed agents cannot be read.
        """
        agents = [
            KnownAgent(name, agent.source, _shown(agent), name == self.default_label)
            for name, agent in named_agents(self._known).items()
            if agent.is_installed or is_url(agent.argv[0])
        ]
        return sorted(agents, key=lambda one: (not one.is_default, ORIGINS.index(one.origin)))

    def _token(self, address: str) -> str | None:
        """Return the token for a server; a second server does not get it."""
        if not is_url(address):
            return None
        server = _server(address)
        self._token_server = self._token_server or server
        if server != self._token_server:
            return None
        try:
            return read_token(self._options.token_file)
        except click.UsageError as error:
            raise ValueError(error.format_message()) from None

    def _mcp_servers(self, entry: AgentEntry) -> tuple[McpServer, ...]:
        files = self._options.mcp_files
        if entry.mcp is not None and not files:
            files = (settings_path().parent / entry.mcp,)
        try:
            return tuple(server for file in files for server in read_mcp_file(file))
        except McpFileError as error:
            raise ValueError(f"MCP servers: {error}") from None


def _assignments(options: Mapping[str, str | bool]) -> Iterator[str]:
    for name, value in options.items():
        yield f"{name}={'on' if value is True else 'off' if value is False else value}"


def _shown(agent: NamedAgent) -> str:
    bundled = (sys.executable, "-m", "accord")
    argv = agent.argv
    return shlex.join(("accord", *argv[3:]) if argv[:3] == bundled else argv)


def _server(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


# The word after one of these says more than they do.
_RUNNERS = ("bun", "bunx", "deno", "env", "node", "npx", "pipx", "python", "uv", "uvx")


class KnownAgent(Struct, frozen=True):
    """An agent that can be started."""

    label: str  # as given to --agent
    origin: str  # settings, installed, …
    command: str  # as a user would type it
    is_default: bool = False


def short_name(label: str) -> str:
    """Return the name, the program of a command, or the host of a URL."""
    if label.startswith("session "):  # a persistent session
        return label
    if "://" in label:
        return _host(label)
    try:
        words = shlex.split(label)
    except ValueError:
        words = label.split()
    if len(words) < 2:
        return PurePath(label).name or label
    program = PurePath(words[0]).name
    if program.rstrip("0123456789.").removesuffix(".exe") in _RUNNERS:
        program = next((word for word in words[1:] if not word.startswith("-")), program)
    return PurePath(program).name or program


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url
