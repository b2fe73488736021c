"""Finds the agents of a chat by name, command or URL, and lists those that have a name."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
from msgspec import Struct

from accord.transports.registry import is_url
from accord.version import ProtocolVersion
from accord_chat.model.known_agents import KnownAgent
from accord_chat.source import GivenOptions, OwnAgent, SharedSession, Source, SourceSetup
from accord_terminal.toolkit.agent_names import (
    DEFAULT,
    NamedAgent,
    find_agent,
    named_agents,
    settings_path,
)
from accord_terminal.toolkit.options import read_token
from accord_terminal.toolkit.session_setup import McpFileError, read_mcp_file

if TYPE_CHECKING:
    from accord.types.mcp import McpServer
    from accord_terminal.toolkit.agent_names import AgentEntry, Settings


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
