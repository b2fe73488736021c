"""Finds the agents of a chat and makes its sessions, for the screen and for lines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import click
from msgspec import Struct

from accord.errors import AccordError
from accord.types.tool_calls import rule_error
from accord_chat.chat import Chat
from accord_chat.live_session import Watcher
from accord_chat.model.permission_memory import PermissionMemory
from accord_chat.model.saved_chats import SavedChats
from accord_chat.model.traffic import Traffic
from accord_chat.source import SharedSession
from accord_chat.sources import ChatOptions, Sources
from accord_terminal.sessions.named import find_or_create
from accord_terminal.sessions.records import SessionsError, Store
from accord_terminal.toolkit.agent_names import SettingsError, load_settings

__all__ = ("ChatOptions", "ChatStart", "MakeChat", "prepare")

# Makes the chat and opens its first sessions. The tasks belong to the group.
MakeChat: TypeAlias = Callable[[Watcher, asyncio.TaskGroup], Chat]


class ChatStart(Struct, frozen=True):
    """The folder of a chat, and what makes the chat with its first sessions."""

    make_chat: MakeChat
    saved: SavedChats  # whose lock is to be released
    notifies: bool = True  # on the desktop


def prepare(options: ChatOptions) -> ChatStart:
    """Read the settings and find the agent. Raises `click.UsageError` for what cannot be used."""
    try:
        known = load_settings()
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    for rules in (options.allow_rules, options.deny_rules, known.ask.allow, known.ask.deny):
        if (error := rule_error(rules)) is not None:
            raise click.UsageError(error)
    sources = Sources(options, known)
    first = sources.default_label
    try:
        sources.find(first)
    except (AccordError, ValueError) as error:
        raise click.UsageError(f"--agent: {error}") from None
    folder = options.cwd.absolute()
    if options.shared_name is not None:
        _create_shared(options.shared_name, folder, options.agent)
        first = f"{SharedSession.PREFIX}{options.shared_name}"
    traffic = Traffic(tuple(sys.argv))
    if options.trace is not None:
        try:
            traffic.write_to(options.trace)
        except OSError as error:
            raise click.UsageError(
                f"--trace: Cannot write {options.trace}: {error.strerror}"
            ) from None
    saved = SavedChats(folder)
    saved.acquire()

    def make_chat(watcher: Watcher, group: asyncio.TaskGroup) -> Chat:
        memory = PermissionMemory()
        chat = Chat(folder, saved, sources.find, group, watcher, memory, sources.known, traffic)
        ways = (options.is_new, options.resume, options.session_id, options.shared_name)
        if any(ways):
            chat.set_aside(options.agent)
        elif chat.restore(options.agent):
            return chat
        chat.open_session(first, session_id=options.session_id)
        return chat

    return ChatStart(make_chat, saved, known.chat.notify)


def _create_shared(name: str, folder: Path, agent: str | None) -> None:
    try:
        find_or_create(Store(), name, folder, agent, create=True)
    except SessionsError as error:
        raise click.ClickException(str(error)) from None
