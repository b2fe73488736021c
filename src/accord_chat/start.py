"""Finds the agents of a chat and makes its sessions, for the screen and for lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
from msgspec import Struct

from accord.cli import settings
from accord.cli.agent_names import find_agent
from accord.cli.ask.allow_rules import rule_error
from accord.cli.ask.mcp_file import McpFileError, read_mcp_file
from accord.cli.remote_token import read_token
from accord.transports.registry import is_url
from accord.version import ProtocolVersion
from accord_chat.chat import Chat
from accord_chat.live_session import Watcher
from accord_chat.model.permission_memory import PermissionMemory
from accord_chat.model.saved_chats import SavedChats
from accord_chat.source import OwnAgent, SharedSession, Source, SourceSetup
from accord_sessions.errors import SessionsError
from accord_sessions.named import find_or_create
from accord_sessions.records import Store

if TYPE_CHECKING:
    from accord.cli.settings import AgentEntry, Settings
    from accord.types.mcp import McpServer

__all__ = ("ChatOptions", "ChatStart", "MakeChat", "prepare")

PROTOCOLS: dict[str, ProtocolVersion] = {"1": 1, "2": 2}

# Makes the chat and opens its first sessions. The tasks belong to the group.
MakeChat: TypeAlias = Callable[[Watcher, asyncio.TaskGroup], Chat]


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


class ChatStart(Struct, frozen=True):
    """The folder of a chat, and what makes the chat with its first sessions."""

    make_chat: MakeChat
    saved: SavedChats  # whose lock is to be released


def prepare(options: ChatOptions) -> ChatStart:
    """Read the settings and find the agent. Raises `click.UsageError` for what cannot be used."""
    try:
        known = settings.load()
    except settings.SettingsError as error:
        raise click.UsageError(str(error)) from None
    for rules in (options.allow_rules, options.deny_rules, known.ask.allow, known.ask.deny):
        if (error := rule_error(rules)) is not None:
            raise click.UsageError(error)
    sources = _Sources(options, known)
    first = sources.default_label
    try:
        sources.find(first)
    except ValueError as error:
        raise click.UsageError(f"--agent: {error}") from None
    folder = options.cwd.absolute()
    if options.shared_name is not None:
        _create_shared(options.shared_name, folder, options.agent)
        first = f"{SharedSession.PREFIX}{options.shared_name}"
    saved = SavedChats(folder)
    saved.acquire()

    def make_chat(watcher: Watcher, group: asyncio.TaskGroup) -> Chat:
        chat = Chat(folder, saved, sources.find, group, watcher, PermissionMemory())
        is_new = options.is_new or options.resume or options.session_id is not None
        if is_new or options.shared_name is not None or not chat.restore(options.agent):
            chat.open_session(first, session_id=options.session_id)
        return chat

    return ChatStart(make_chat, saved)


def _create_shared(name: str, folder: Path, agent: str | None) -> None:
    try:
        find_or_create(Store(), name, folder, agent, create=True)
    except SessionsError as error:
        raise click.ClickException(str(error)) from None


class _Sources:
    """Finds agents by name; what the command line sets applies to the agent that it names."""

    def __init__(self, options: ChatOptions, known: Settings) -> None:
        self._options = options
        self._known = known
        self.default_label = options.agent or find_agent(None, known).name

    def find(self, label: str) -> Source:
        """Return an agent; raise `ValueError` for a command line that cannot be split."""
        options, known = self._options, self._known
        if label.startswith(SharedSession.PREFIX):
            # Modes, rules and servers are those of the session: other clients use it, too.
            name = label.removeprefix(SharedSession.PREFIX)
            return SharedSession(name, options.cwd.absolute(), SourceSetup())
        agent = find_agent(label, known)
        entry = agent.entry
        is_named = label == self.default_label
        setup = SourceSetup(
            protocol=PROTOCOLS[options.protocol] if options.protocol else entry.protocol,
            model=(options.model if is_named else None) or entry.model,
            mode=(options.mode if is_named else None) or entry.mode,
            options=(*_assignments(entry.options), *(options.options if is_named else ())),
            mcp_servers=self._mcp_servers(entry),
            allow_rules=(*known.ask.allow, *options.allow_rules),
            deny_rules=(*known.ask.deny, *options.deny_rules),
            terminals=options.terminals,
            env=entry.env,
        )
        token = read_token(options.token_file) if is_url(agent.argv[0]) else None
        return OwnAgent(label, agent.argv, setup, token=token)

    def _mcp_servers(self, entry: AgentEntry) -> tuple[McpServer, ...]:
        files = self._options.mcp_files
        if entry.mcp is not None and not files:
            files = (settings.path().parent / entry.mcp,)
        try:
            return tuple(server for file in files for server in read_mcp_file(file))
        except McpFileError as error:
            raise ValueError(f"MCP servers: {error}") from None


def _assignments(options: Mapping[str, str | bool]) -> Iterator[str]:
    for name, value in options.items():
        yield f"{name}={'on' if value is True else 'off' if value is False else value}"
